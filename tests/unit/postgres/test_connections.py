"""Connections that are lost, servers that restart, locks that others hold."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

import asyncpg
import pytest

from anarchon.backends.postgres import PostgresBackend
from anarchon.errors import OutcomeUnknown, StoreUnavailable
from anarchon.store import Outcome, Renewal
from anarchon_contract.leases.questions import claim_of
from tests.servers import ServersForTests
from tests.servers.postgres import PostgresServer
from tests.unit.postgres.conftest import NAMESPACE, Database, let_the_loop_run

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]


@pytest.fixture
async def user(database: Database) -> AsyncIterator[Connection]:
    """Somebody else's session, in the middle of a transaction."""
    connection = await asyncpg.connect(database.url())
    await connection.execute("begin")
    yield connection
    await connection.close()


async def pids(database: Database) -> set[int]:
    rows = await database.admin.fetch(
        "select pid from pg_stat_activity where application_name = 'anarchon'"
        " and datname = current_database()"
    )
    return {row["pid"] for row in rows}


async def test_a_connection_ended_between_calls_is_made_again_unnoticed(
    database, store, due, claim
):
    await database.admin.execute(
        "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
        " where application_name = 'anarchon' and datname = current_database()"
    )
    await let_the_loop_run()

    assert (await claim(store, due, "t")).outcome is Outcome.WON


async def test_a_connection_ended_during_a_call_leaves_its_outcome_open(
    database, store, due, claim, user
):
    await user.execute("select from anarchon.job where job = 'a' for update")
    call = asyncio.ensure_future(claim(store, due, "t"))
    pid = await database.waiter("transactionid")

    await database.admin.execute("select pg_terminate_backend($1)", pid)
    with pytest.raises(OutcomeUnknown) as raised:
        await call
    await user.execute("rollback")

    assert raised.value.store == store.label
    assert (await claim(store, due, "t")).outcome is Outcome.WON


async def test_a_statement_somebody_cancels_did_not_happen(database, store, due, claim, user):
    await user.execute("select from anarchon.job where job = 'a' for update")
    call = asyncio.ensure_future(claim(store, due, "t"))
    pid = await database.waiter("transactionid")

    await database.admin.execute("select pg_cancel_backend($1)", pid)
    with pytest.raises(StoreUnavailable):
        await call
    await user.execute("rollback")

    assert (await claim(store, due, "t")).outcome is Outcome.WON
    assert await pids(database) == {pid}


@pytest.mark.parametrize(
    "lock", ["lock table anarchon.job", "select from anarchon.job where job = 'a' for update"]
)
async def test_a_lock_that_a_user_holds_is_not_waited_for_long(
    database, store, due, claim, user, lock
):
    await user.execute(lock)
    before = await pids(database)

    with pytest.raises(StoreUnavailable) as raised:
        await claim(store, due, "t")
    assert isinstance(raised.value.__cause__, asyncpg.LockNotAvailableError)
    await user.execute("rollback")

    assert (await claim(store, due, "t")).outcome is Outcome.WON
    assert await pids(database) == before


async def test_a_row_lock_on_one_job_stops_no_loser(store, connect, due, claim, user):
    await claim(store, due, "t", "a")
    await user.execute("select from anarchon.job for update")

    # no lock is taken to hear who has it
    assert (await claim(store, due, "other", "a")).outcome is Outcome.RUNNING
    assert len((await store.history(["a"], 10)).answers) == 1


async def test_a_call_given_up_is_cancelled_at_the_server(database, store, due, claim, user):
    # so that nothing else ends its waiting
    await database.admin.execute("alter function anarchon.claim set lock_timeout = 0")
    await user.execute("select from anarchon.job where job = 'a' for update")
    call = asyncio.ensure_future(claim(store, due, "t"))
    pid = await database.waiter("transactionid")

    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    # while the lock is still held
    assert (await claim(store, due, "t", "b")).outcome is Outcome.WON
    while pid in await pids(database):
        await let_the_loop_run()
    await user.execute("rollback")
    assert (await claim(store, due, "other", "a")).outcome is Outcome.WON


async def test_a_call_given_up_a_hundred_times_leaves_one_connection(database, store, due, claim):
    for count in range(100):
        call = asyncio.ensure_future(claim(store, due, "t"))
        for _ in range(count % 10):
            await asyncio.get_running_loop().run_in_executor(None, int)
        call.cancel()
        await asyncio.wait([call])

    await store.active(())

    while len(await pids(database)) > 1:
        await let_the_loop_run()
    assert (await store.renew([Renewal("a", due, "none")])).answers == (False,)


class TestOfItsOwn:
    """With a server that may be stopped."""

    pytestmark = pytest.mark.xdist_group("postgres-18")

    @pytest.fixture
    def own(self, servers: ServersForTests) -> Iterator[PostgresServer]:
        server = servers.start("postgres-18")
        assert isinstance(server, PostgresServer)
        yield server
        server.stop()

    async def test_a_server_that_comes_back_is_found_again(self, own):
        store = PostgresBackend(own.url()).connect(NAMESPACE)
        await store.open()
        time = (await store.active(())).time

        own.stop()
        await let_the_loop_run()
        with pytest.raises(StoreUnavailable):
            await store.active(())
        own.start()

        assert (await store.active(())).time > time
        await store.close()

    async def test_what_was_acknowledged_outlives_a_kill(self, own):
        root = await asyncpg.connect(own.url())
        await root.execute("alter system set synchronous_commit = off")
        await root.close()
        # a server that is told to read its settings again does so in the midst of a claim, too
        own.restart()
        store = PostgresBackend(own.url()).connect(NAMESPACE)
        await store.open()
        now = (await store.active(())).time
        # a loaded machine takes its time to start a server
        lasts = claim_of(now, "t", job="a", lease=timedelta(minutes=5))
        won = (await store.claim([lasts])).answers

        own.kill()
        own.start()
        await let_the_loop_run()

        assert won[0].outcome is Outcome.WON
        assert (await store.renew([Renewal("a", now, "t")])).answers == (True,)
        await store.close()

    async def test_a_server_that_hangs_holds_nobody_longer_than_he_waits(self, own):
        store = PostgresBackend(own.url()).connect(NAMESPACE)
        await store.open()
        own.pause()
        call = asyncio.ensure_future(store.active(()))
        await let_the_loop_run()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

        own.resume()

        assert (await store.active(())).answers == ()
        await store.close()
