"""A job that nobody met: its floor and the answer are of one time, whatever the call waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from anarchon.store import Mode, Outcome, Registration
from anarchon_contract.leases.questions import JOB, MINUTE, claim_of
from tests.contract.harness_postgres import HeldPostgresHarness, PostgresHarness
from tests.unit.postgres.conftest import NAMESPACE, Database

SECOND = timedelta(seconds=1)
NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)

Held = Callable[[datetime], AbstractAsyncContextManager[None]]


@pytest.fixture
async def set_clock(database: Database, store) -> Callable[[datetime], Awaitable[None]]:
    """A way to set the clock of the store, which stands still."""
    held = HeldPostgresHarness(PostgresHarness(database.admin, database.url()))
    await held.take_hold()
    await held.set_clock(NOW)
    return held.set_clock


@pytest.fixture
def held_up(database: Database, set_clock) -> Held:
    """Let a call that makes a record wait inside for another, who makes it first, until then."""

    @asynccontextmanager
    async def held_up(until: datetime) -> AsyncIterator[None]:
        other = await asyncpg.connect(database.url())
        try:
            await other.execute("begin")
            await other.execute(
                "insert into anarchon.job (namespace, job, floor, newest)"
                " values ($1, $2, 'epoch', 'epoch')",
                *(NAMESPACE, JOB),
            )
            yield
            await database.waiter("transactionid")
            await set_clock(until)
            # so that the one who waited makes it
            await other.execute("rollback")
        finally:
            await other.close()

    return held_up


async def floor_of(database: Database) -> datetime:
    floor = await database.admin.fetchval("select floor from anarchon.job where job = $1", JOB)
    assert isinstance(floor, datetime)
    return floor


@pytest.mark.parametrize(
    ("mode", "slot_in"),
    [(Mode.SCHEDULED, timedelta(0)), (Mode.CATCH_UP, SECOND)],
    ids=["that became late", "of a catch-up that became due"],
)
async def test_a_first_claim_is_done(database, store, held_up, mode, slot_in):
    claim = claim_of(NOW + slot_in, mode=mode, within=MINUTE)

    async with held_up(until=NOW + (2 * MINUTE if slot_in == timedelta(0) else 2 * SECOND)):
        asked = asyncio.create_task(store.claim([claim]))

    reply = await asked
    assert reply.answers[0].outcome is Outcome.DONE
    assert await floor_of(database) == reply.time


async def test_a_first_claim_that_became_due_is_won(database, store, held_up):
    async with held_up(until=NOW + 2 * SECOND):
        asked = asyncio.create_task(store.claim([claim_of(NOW + SECOND)]))

    assert (await asked).answers[0].outcome is Outcome.WON
    assert await floor_of(database) == NOW + SECOND - timedelta(milliseconds=1)


async def test_a_registration_has_nothing_to_catch_up(database, store, held_up):
    async with held_up(until=NOW + 2 * SECOND):
        asked = asyncio.create_task(store.active([Registration(JOB, "v1")]))

    reply = await asked
    assert reply.time == reply.answers[0].first_seen == NOW + 2 * SECOND
    assert await floor_of(database) == NOW + 2 * SECOND
