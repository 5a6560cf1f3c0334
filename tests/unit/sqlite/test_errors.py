"""What goes wrong with a file, and what the engine hears of it."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
from contextlib import closing
from datetime import timedelta

import pytest

from anarchon.backends.sqlite import SQLiteBackend, database
from anarchon.clock import SystemClock
from anarchon.errors import OutcomeUnknown, StoreError, StoreUnavailable
from anarchon.run import Attempt
from anarchon.store import Outcome, Registration
from anarchon_contract.leases.questions import Asker, claim_of


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(database, "PATIENCE", 0.02)
    monkeypatch.setattr(database, "_TURNS", 2)


@pytest.fixture
async def ask(store, other) -> Asker:
    """A store that has known its job for long."""
    ask = Asker(store)
    await ask.register("v1")
    other.execute("update anarchon_job set floor = 0")
    return ask


@pytest.fixture
async def running(ask: Asker) -> Attempt:
    """What the history shows of a run that is busy under the token ``a``."""
    await ask.claim(await ask.time(), "a")
    (attempt,) = await ask.history()
    return attempt


async def test_a_file_locked_for_long_is_away_and_nothing_happened(store, other, impatient):
    ask = Asker(store)
    other.execute("begin immediate")

    with pytest.raises(StoreUnavailable) as raised:
        await ask.register("v1")

    assert raised.value.store == store.label
    assert isinstance(raised.value.__cause__, sqlite3.OperationalError)
    other.execute("rollback")
    assert (await ask.register("v2")).others == ()


async def test_losing_waits_for_nobody(ask, running, other):
    """A look before any write: whoever holds the lock does not matter to losers."""
    other.execute("begin immediate")

    assert (await ask.claim(running.slot, "b")).outcome is Outcome.RUNNING
    assert (await ask.take_over(running.slot, "b")).outcome is Outcome.RUNNING
    assert await ask.history() == (running,)
    assert await ask.prune() == 0
    await ask.time()


async def test_a_win_waits_until_the_lock_is_free(store, other):
    ask = Asker(store)
    other.execute("begin immediate")
    call = asyncio.ensure_future(ask.register())

    for _ in range(20):
        await asyncio.get_running_loop().run_in_executor(None, int)
    assert not call.done()

    other.execute("rollback")
    assert (await call).others == ()


async def test_a_missing_folder_is_named(tmp_path):
    store = SQLiteBackend(tmp_path / "none" / "store.db").connect("default")

    with pytest.raises(StoreUnavailable) as raised:
        await store.open()

    assert str(tmp_path / "none") in raised.value.problem
    await store.close()


async def test_a_folder_in_place_of_the_file_is_named(tmp_path):
    store = SQLiteBackend(tmp_path).connect("default")

    with pytest.raises(StoreUnavailable) as raised:
        await store.open()

    assert "folder" in raised.value.problem
    await store.close()


async def test_a_file_that_is_no_database_is_refused_and_left_alone(path):
    path.write_text("notes, not a database\n" * 100)
    store = SQLiteBackend(path).connect("default")

    with pytest.raises(StoreError) as raised:
        await store.open()

    assert not isinstance(raised.value, StoreUnavailable)
    assert "not a database" in raised.value.problem
    assert path.read_text().startswith("notes")
    await store.close()


async def test_a_full_disk_is_away_and_nothing_happened(store, ask, running):
    connection = store._database._connection
    await store._thread.run(lambda: connection.execute("pragma max_page_count = 1").fetchall())

    with pytest.raises(StoreUnavailable) as raised:
        await ask.finish(running.slot, "a", detail="x" * 100_000)

    assert "full" in raised.value.problem
    # a new connection, and a disk with room again
    assert await ask.history() == (running,)
    assert await ask.finish(running.slot, "a", detail="x" * 100_000)


class _NoCommit:
    """A connection on which the commit meets a disk error."""

    def __init__(self, connection, code):
        self._connection = connection
        self._code = code

    def execute(self, statement, *values):
        if statement == "commit":
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = self._code
            raise error
        return self._connection.execute(statement, *values)

    def __getattr__(self, name):
        return getattr(self._connection, name)


async def test_after_a_commit_that_failed_nobody_knows(store, ask, running):
    connection = store._database._connection
    store._database._connection = _NoCommit(connection, sqlite3.SQLITE_IOERR_FSYNC)

    with pytest.raises(OutcomeUnknown) as raised:
        await ask.register("v2")

    assert isinstance(raised.value.__cause__, sqlite3.OperationalError)
    assert await ask.history() == (running,)


async def test_after_a_commit_that_met_a_lock_nothing_happened(store, ask):
    connection = store._database._connection
    store._database._connection = _NoCommit(connection, sqlite3.SQLITE_BUSY)

    with pytest.raises(StoreUnavailable):
        await ask.register("v2")

    store._database._connection = connection
    assert [name for name, _ in (await ask.register("v3")).others] == ["v1"]


async def test_a_name_that_cannot_be_kept_fails_alone(store):
    ask = Asker(store)

    with pytest.raises(StoreError) as raised:
        await ask.register(job="half a \ud83e")

    assert not isinstance(raised.value, StoreUnavailable)
    assert isinstance(raised.value.__cause__, UnicodeEncodeError)
    assert (await ask.register()).others == ()


async def test_names_are_told_apart_after_a_zero_byte(store):
    ask = Asker(store)
    await ask.register("v1", job="a\0b")

    assert (await ask.register("v2", job="a")).others == ()
    assert (await ask.register("v2", job="a\0c")).others == ()
    assert [name for name, _ in (await ask.register("v2", job="a\0b")).others] == ["v1"]


async def test_a_file_that_was_replaced_is_opened_anew(store, path, caplog):
    """Who works on in a deleted file meets nobody, and both would win."""
    await Asker(store).register("v1")
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink()
    fresh = SQLiteBackend(path).connect("default")
    await fresh.active([Registration("sync", "v2")])

    with caplog.at_level(logging.WARNING, "anarchon.store"):
        known = await Asker(store).register("v3")

    assert [name for name, _ in known.others] == ["v2"]
    assert [record.name for record in caplog.records] == ["anarchon.store"]
    await fresh.close()


async def test_a_store_is_refused_after_a_fork(store, monkeypatch):
    monkeypatch.setattr(os, "getpid", lambda: -1)

    with pytest.raises(StoreError) as raised:
        await store.active(())

    assert "fork" in raised.value.problem
    monkeypatch.undo()
    await store.active(())


async def test_closing_after_a_fork_leaves_the_connection_to_the_parent(store, monkeypatch):
    connection = store._database._connection
    thread = store._thread
    kept = thread._executor
    monkeypatch.setattr(os, "getpid", lambda: -1)

    await store.close()

    monkeypatch.undo()
    thread._executor = kept
    assert store._database._connection is connection
    await store.active(())


async def test_a_call_given_up_while_it_waits_is_finished_behind_the_back(store, other):
    other.execute("begin immediate")
    call = asyncio.ensure_future(store.active([Registration("sync", "v1")]))
    await SystemClock().sleep(0.3)  # it waits on its own thread by now, for a lock
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    other.execute("rollback")

    known = await Asker(store).register("v2")

    assert [name for name, _ in known.others] == ["v1"]


async def test_tables_of_others_in_the_file_are_left_alone(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "create table job (id integer); insert into job values (7); pragma user_version = 3"
        )
    store = SQLiteBackend(path).connect("default")
    await store.open()
    await Asker(store).register()
    await store.close()

    with closing(sqlite3.connect(path)) as connection:
        tables = connection.execute("select name from sqlite_master where type = 'table'")
        assert {name for (name,) in tables if not name.startswith("anarchon_")} == {"job"}
        assert connection.execute("select id from job").fetchall() == [(7,)]
        assert connection.execute("pragma user_version").fetchone() == (3,)


async def test_a_claim_of_a_clock_handed_in_is_judged_by_it(path, store):
    now = await Asker(store).time()
    backend = SQLiteBackend(path, now=lambda: now + timedelta(hours=1))
    later = backend.connect("default")
    await Asker(store).register()

    reply = await later.claim([claim_of(now + timedelta(minutes=30), within=timedelta(hours=1))])

    assert reply.answers[0].outcome is Outcome.WON
    assert abs(reply.time - now - timedelta(hours=1)) < timedelta(milliseconds=1)
    await later.close()
