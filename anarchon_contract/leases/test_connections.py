"""Opening, closing, and calls that are given up."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from anarchon.clock import SystemClock
from anarchon.errors import SchemaMismatch
from anarchon.run import RunState
from anarchon.store import Outcome
from anarchon_contract.giving_up import give_up
from anarchon_contract.leases.harness import NAMESPACE, Feature
from anarchon_contract.leases.questions import DAY, JOB, MINUTE, Asker, claim_of
from anarchon_contract.needing import needs
from anarchon_contract.own_clocks import set_off


async def test_what_was_granted_outlives_the_connection(connect, due, ask):
    first = await connect()
    await Asker(first).claim(due, "a")
    await first.close()

    assert (await ask.claim(due, "b")).outcome is Outcome.RUNNING
    again = await connect()
    assert await Asker(again).renew(due, "a")


async def test_closing_is_harmless_twice_and_before_opening(harness, store):
    await store.close()
    await store.close()

    await harness.connect().close()


async def test_a_store_that_was_closed_can_be_opened_again(harness, ask, due):
    await ask.claim(due, "a")
    await ask.store.close()

    await ask.store.open()

    assert await ask.renew(due, "a")


async def test_many_stores_may_open_a_new_one_at_once(harness):
    """One of them brings it to this version, and the others wait for it."""
    stores = [harness.connect() for _ in range(8)]

    await asyncio.gather(*(store.open() for store in stores))

    for store in stores:
        await Asker(store).register()
        await store.close()


async def test_opening_again_keeps_what_there_is(connect, ask, due):
    await ask.claim(due, "a")

    await connect()

    assert await ask.renew(due, "a")


async def test_the_label_names_the_store(store, harness):
    assert store.label
    assert store.label == harness.connect().label


@needs(Feature.SCHEMA)
async def test_a_store_of_a_later_version_is_refused(harness, store):
    await harness.stamp_newer_version()
    other = harness.connect()

    with pytest.raises(SchemaMismatch) as raised:
        await other.open()

    assert raised.value.store == other.label
    await other.close()


@needs(Feature.SERVER_CLOCK)
@pytest.mark.parametrize("off", [timedelta(hours=-1), timedelta(hours=1)], ids=str)
async def test_the_clock_of_the_store_decides(connect, ask, due, monkeypatch, off):
    """Whether a slot is due, late or lapsed; a client an hour off changes nothing."""
    set_off(off, monkeypatch)
    astray = Asker(await connect())

    now = await astray.time()

    assert abs(now - await ask.time()) < MINUTE
    assert (await astray.claim(now + MINUTE, "a")).outcome is Outcome.NONE
    assert (await astray.claim(due - DAY, "a")).outcome is Outcome.LATE
    assert (await astray.claim(due, "a", within=5 * MINUTE)).outcome is Outcome.WON
    assert (await ask.take_over(due, "b")).outcome is Outcome.RUNNING
    assert await ask.renew(due, "a")
    assert await astray.finish(due, "a")
    attempt = (await ask.history())[0]
    assert abs(attempt.started - now) < MINUTE
    assert abs(attempt.ended - now) < MINUTE


@pytest.mark.parametrize("steps", range(12))
async def test_a_call_given_up_midway_leaves_a_clean_connection(store, ask, due, steps):
    await give_up(store.claim([claim_of(due, "a")]), steps)

    # whether it happened or not, asking again under the same token tells
    answer = await ask.claim(due, "a")

    assert (answer.outcome, answer.attempt) == (Outcome.WON, 1)
    assert len(await ask.history()) == 1
    assert await ask.finish(due, "a", RunState.SUCCESS)


async def test_calls_given_up_one_after_the_other_do_no_harm(store, ask, meet, due):
    jobs = [f"job-{count}" for count in range(100)]
    await meet(*jobs)
    for steps in range(30):
        await give_up(store.claim([claim_of(due, "a", job=job) for job in jobs]), steps)

    reply = await store.claim([claim_of(due, "a", job=job) for job in jobs])

    assert {(answer.outcome, answer.attempt) for answer in reply.answers} == {(Outcome.WON, 1)}


async def test_a_call_given_up_keeps_no_other_connection_waiting(store, connect, due):
    other = Asker(await connect())
    await give_up(store.claim([claim_of(due, "a")]), 1)

    async with SystemClock().timeout(10):
        await other.claim(due, "b", job=JOB)


async def test_a_store_closed_with_a_call_under_way_leaves_nothing(harness):
    store = harness.connect(NAMESPACE)
    await store.open()
    await give_up(store.active(()), 1)

    await store.close()

    assert list(await harness.leftovers()) == []
