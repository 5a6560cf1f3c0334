"""Migrations."""

from __future__ import annotations

import asyncio

import pytest

from anarchon.backends.libsql import LibSQLBackend, schema
from anarchon.errors import SchemaMismatch, StoreError
from anarchon_contract.leases.questions import Asker
from tests.unit.libsql.conftest import NAMESPACE

pytestmark = pytest.mark.xdist_group("sqld")

ADDED = "create table anarchon_added (id integer)"


async def test_a_new_database_gets_every_migration(server, store):
    assert server.run("update anarchon_migration set version = version") == [len(schema.MIGRATIONS)]


async def test_an_older_database_gets_the_migrations_it_lacks(server, store, connect, monkeypatch):
    await Asker(store).register("v1")
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, (ADDED,)))

    newer = await connect()

    assert server.run("insert into anarchon_added values (1)") == [1]
    assert [name for name, _ in (await Asker(newer).register("v2")).others] == ["v1"]


async def test_a_migration_that_fails_changes_nothing(server, monkeypatch):
    broken = (*schema.MIGRATIONS, (ADDED, "insert into nowhere values (1)"))
    monkeypatch.setattr(schema, "MIGRATIONS", broken)
    store = LibSQLBackend(server.url()).connect(NAMESPACE)

    with pytest.raises(StoreError):
        await store.open()

    await store.close()
    monkeypatch.undo()
    assert not (await LibSQLBackend(server.url()).examine(NAMESPACE)).is_prepared
    # nothing of it is there to be in the way
    server.run(*(statement for migration in schema.MIGRATIONS for statement in migration))


async def test_many_may_migrate_at_once(server, monkeypatch):
    """Who comes second finds it done, and goes on."""
    for _ in range(5):
        server.wipe()
        stores = [LibSQLBackend(server.url()).connect(NAMESPACE) for _ in range(10)]
        await asyncio.gather(*(store.open() for store in stores))
        for store in stores:
            await store.close()


async def test_a_database_of_a_later_version_is_left_as_it_is(server, store, connect):
    server.run("insert into anarchon_migration values (99)")

    with pytest.raises(SchemaMismatch) as raised:
        await connect()
    with pytest.raises(SchemaMismatch):
        await LibSQLBackend(server.url()).examine(NAMESPACE)

    assert "99" in raised.value.problem
    assert server.run("delete from anarchon_migration where version = 99") == [1]


async def test_looking_at_a_database_leaves_it_as_it_is(server):
    before = await LibSQLBackend(server.url()).examine(NAMESPACE)
    store = LibSQLBackend(server.url()).connect(NAMESPACE)
    assert not (await LibSQLBackend(server.url()).examine(NAMESPACE)).is_prepared
    await store.open()
    await store.close()
    after = await LibSQLBackend(server.url()).examine(NAMESPACE)

    assert (before.is_prepared, after.is_prepared) == (False, True)
    assert before.server == "sqld 0.24.32"
    assert before.doubts == ()
