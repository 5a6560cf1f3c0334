"""Migrations, and what the tables are asked."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from anarchon.backends.sqlite import SQLiteBackend, schema
from anarchon.errors import SchemaMismatch, StoreError
from anarchon_contract.leases.questions import Asker


def _tables(path) -> set[str]:
    with closing(sqlite3.connect(path)) as connection:
        return {name for (name,) in connection.execute("select name from sqlite_master")}


def _version(path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("select version from anarchon_schema").fetchone()[0])


async def test_a_new_file_gets_every_migration(path, store):
    assert _version(path) == schema.VERSION == len(schema.MIGRATIONS)


async def test_an_older_file_gets_the_migrations_it_lacks(path, store, monkeypatch):
    await Asker(store).register("v1")
    await store.close()
    added = (*schema.MIGRATIONS, ("create table anarchon_added (id integer)",))
    monkeypatch.setattr(schema, "MIGRATIONS", added)
    monkeypatch.setattr(schema, "VERSION", len(added))

    await store.open()

    assert _version(path) == len(added)
    assert "anarchon_added" in _tables(path)
    assert [name for name, _ in (await Asker(store).register("v2")).others] == ["v1"]


async def test_a_migration_that_fails_changes_nothing(path, monkeypatch):
    broken = (*schema.MIGRATIONS, ("create table anarchon_added (id integer)", "nonsense"))
    monkeypatch.setattr(schema, "MIGRATIONS", broken)
    monkeypatch.setattr(schema, "VERSION", len(broken))
    store = SQLiteBackend(path).connect("default")

    with pytest.raises(StoreError):
        await store.open()

    await store.close()
    assert _tables(path) == set()


async def test_a_file_of_a_later_version_is_left_as_it_is(path, store):
    await store.close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("update anarchon_schema set version = 99")

    with pytest.raises(SchemaMismatch) as raised:
        await store.open()

    assert "99" in raised.value.problem
    assert _version(path) == 99


async def test_no_question_reads_through_a_whole_table(path, store, other):
    """What a claim costs must not grow with the history."""
    ask = Asker(store)
    asked: list[str] = []
    connection = store._database._connection
    await store._thread.run(lambda: connection.set_trace_callback(asked.append))
    now = await ask.time()

    await ask.register()
    await ask.claim(now)
    await ask.renew(now)
    await ask.finish(now)
    await ask.release(now)
    await ask.history()
    other.execute("update anarchon_job set floor = 0")
    await ask.claim(now)
    await ask.finish(now)
    await ask.prune(keep=0)

    plans = [
        row[3]
        for statement in asked
        if statement.lstrip().startswith(("select", "with", "delete", "update"))
        for row in other.execute(f"explain query plan {statement}")
    ]
    assert len(plans) > 20
    scans = {plan for plan in plans if plan.startswith("SCAN anarchon_")}
    # the index holds what has not ended, and that is asked for as a whole
    assert scans == {"SCAN anarchon_run USING INDEX anarchon_unfinished"}
