"""What must hold whatever the database's defaults are, and however calls cross each other."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import datetime, timedelta
from random import Random

import asyncpg
import pytest

from anarchon.backends.postgres import PostgresStore
from anarchon.errors import OutcomeUnknown
from anarchon.run import RunState
from anarchon.store import Finish, Outcome, Prune, Registration, Release, Renewal
from anarchon_contract.leases.questions import claim_of
from tests.unit.postgres.conftest import NAMESPACE, until_it_is_answered

SECOND = timedelta(seconds=1)


@pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
async def test_one_wins_each_slot_at_any_default_isolation_level(database, connect, due, level):
    await database.default_to(level)
    stores = [await connect() for _ in range(12)]
    wins: Counter[int] = Counter()

    async def contend(number: int, store: PostgresStore) -> None:
        for count in range(25):
            slot = due + count * SECOND
            (answer,) = (await store.claim([claim_of(slot, f"t{number}", job="a")])).answers
            if answer.outcome is Outcome.WON:
                wins[count] += 1
                ended = await store.finish([Finish("a", slot, f"t{number}", RunState.SUCCESS)])
                assert ended.answers == (True,)

    await asyncio.gather(*(contend(number, store) for number, store in enumerate(stores)))

    assert set(wins.values()) == {1}
    history = (await stores[0].history(["a"], 100)).answers
    fences = [attempt.fence for attempt in reversed(history) if attempt.attempt]
    assert len(set(fences)) == len(fences)


async def test_a_client_that_stands_still_in_its_transaction_holds_no_job_for_long(
    database, connect, due, claim, freeze_before_the_commit
):
    """It has one where the default isolation level lets it begin and end each by itself."""
    await database.default_to("serializable")
    frozen, other = await connect(), await connect()
    for store in frozen, other:
        await store.active(())
    freezing = freeze_before_the_commit()
    call = asyncio.ensure_future(claim(frozen, due, "t"))
    await freezing.is_frozen.wait()

    won = await until_it_is_answered(lambda: claim(other, due, "other"))
    freezing.goes_on.set()

    assert won.outcome is Outcome.WON
    with pytest.raises(OutcomeUnknown):
        await call
    assert (await claim(frozen, due, "t")).outcome is Outcome.RUNNING


async def test_a_snapshot_older_than_the_lock_is_refused(database, store, due):
    await database.admin.execute("begin isolation level repeatable read")
    with pytest.raises(asyncpg.PostgresError) as raised:
        await database.admin.fetch(
            "select * from anarchon.prune($1, '{}', '{}', '{}', 1)", NAMESPACE
        )
    await database.admin.execute("rollback")

    assert raised.value.sqlstate == "AN001"


@pytest.mark.parametrize(
    ("wanted", "used"), [("off", "on"), ("local", "local"), ("remote_apply", "remote_apply")]
)
async def test_a_commit_is_waited_for_even_where_the_database_does_not(
    database, store, due, wanted, used
):
    async with database.admin.transaction():
        await database.admin.execute(f"set local synchronous_commit = {wanted}")
        released = await database.admin.fetch(
            "select * from anarchon.release($1, array['a'], array[0], array['t'], array[true])",
            NAMESPACE,
        )
        assert [row["answer"] for row in released] == [False]
        assert await database.admin.fetchval("show synchronous_commit") == used


async def test_calls_of_all_kinds_in_any_order_do_not_deadlock(connect, database, now):
    """Of jobs that are met in the middle of it, too."""
    stores = [await connect() for _ in range(8)]
    wins: Counter[tuple[str, datetime]] = Counter()

    async def work(number: int, store: PostgresStore) -> None:
        random = Random(number)
        for turn in range(12):
            jobs = [f"{turn // 3}-{count}" for count in range(30)]
            random.shuffle(jobs)
            await store.active([Registration(job, f"v{number}") for job in jobs[:10]])
            if number == 0:
                await database.lower_floors()
            slot, token = now - turn * SECOND, f"{number}-{turn}"
            claims = [claim_of(slot, token, job=job) for job in jobs[5:]]
            reply = await store.claim(claims)
            won = [
                asked.job
                for asked, answer in zip(claims, reply.answers, strict=True)
                if answer.outcome is Outcome.WON
            ]
            wins.update((job, slot) for job in won)
            random.shuffle(won)
            assert all((await store.renew([Renewal(job, slot, token) for job in won])).answers)
            ended = [Finish(job, slot, token, RunState.SUCCESS) for job in won[::2]]
            assert all((await store.finish(ended)).answers)
            freed = [Release(job, slot, token) for job in won[1::2]]
            assert all((await store.release(freed)).answers)
            await store.prune([Prune(job, 3, SECOND) for job in reversed(jobs)])

    # a deadlock would be raised as StoreUnavailable
    await asyncio.gather(*(work(number, store) for number, store in enumerate(stores)))

    assert wins
    assert set(wins.values()) == {1}


async def test_a_lease_that_lapses_while_its_renewal_waits_for_a_lock_is_not_renewed(
    database, store, due
):
    """The time is read where the lock is held: what was true when it was asked may not be."""
    lease = timedelta(milliseconds=250)
    (won,) = (await store.claim([claim_of(due, "t", job="a", lease=lease)])).answers
    assert won.outcome is Outcome.WON
    await store.renew([Renewal("a", due, "t")])

    async with database.admin.transaction():
        await database.admin.execute("select from anarchon.job where job = 'a' for update")
        waiting = asyncio.create_task(store.renew([Renewal("a", due, "t")]))
        await database.admin.execute("select pg_sleep(0.6)")
        assert not waiting.done()

    assert (await waiting).answers == (False,)


async def test_a_claim_that_becomes_late_while_it_waits_for_a_lock_does_not_win(
    database, store, due
):
    """As a renewal: the time of its answer decides."""
    time = (await store.active(())).time
    claim = claim_of(due, "t", job="a", within=time - due + timedelta(milliseconds=900))

    async with database.admin.transaction():
        await database.admin.execute("select from anarchon.job where job = 'a' for update")
        waiting = asyncio.create_task(store.claim([claim]))
        await database.admin.execute("select pg_sleep(1.2)")
        assert not waiting.done()

    (answer,) = (await waiting).answers
    assert answer.outcome is Outcome.LATE
