"""Opening, closing, losing everything, and calls that are given up."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from anarchon.claim_store import ClaimBackend
from anarchon.clock import SystemClock
from anarchon.errors import SchemaMismatch
from anarchon.run import RunState
from anarchon.store import Outcome
from anarchon_contract.claims.harness import NAMESPACE, Feature
from anarchon_contract.claims.questions import SECOND, Asker, ended, scheduled
from anarchon_contract.giving_up import give_up
from anarchon_contract.leases.questions import HOUR, MINUTE
from anarchon_contract.needing import needs
from anarchon_contract.own_clocks import set_off


async def test_two_connections_see_the_same(connect, due):
    one, two = Asker(await connect()), Asker(await connect())
    await one.claim(due, "a")
    await two.claim(due + SECOND, "b")

    assert (await two.claim(due, "b")).outcome is Outcome.DONE
    assert (await one.claim(due + SECOND, "a")).outcome is Outcome.DONE


async def test_claims_are_remembered_after_the_connection_closed(connect, ask, due):
    first = await connect()
    won = await Asker(first).claim(due, "a")
    await first.close()

    assert (await ask.claim(due, "b")).outcome is Outcome.DONE
    assert await ask.claim(due, "a") == won


async def test_a_store_that_was_closed_can_be_opened_again(ask, due):
    won = await ask.claim(due, "a")
    await ask.store.close()

    await ask.store.open()

    assert await ask.claim(due, "a") == won
    assert (await ask.claim(due, "b")).outcome is Outcome.DONE


async def test_closing_is_harmless_twice_and_before_opening(harness, store):
    await store.close()
    await store.close()

    await harness.connect().close()


async def test_many_stores_may_open_a_new_one_at_once(harness, due):
    """One of them brings it to this version, and the others wait for it."""
    stores = [harness.connect() for _ in range(8)]

    await asyncio.gather(*(store.open() for store in stores))

    heard = [(await Asker(store).claim(due, f"t{n}")).outcome for n, store in enumerate(stores)]
    for store in stores:
        await store.close()
    assert heard == [Outcome.WON] + [Outcome.DONE] * 7


async def test_opening_again_keeps_what_there_is(connect, ask, due):
    await ask.claim(due, "a")

    await connect()

    assert (await ask.claim(due, "b")).outcome is Outcome.DONE


async def test_the_label_names_the_store(store, harness):
    assert store.label
    assert store.label == harness.connect().label == harness.backend.label


async def test_a_claim_is_remembered_for_as_long_as_anybody_could_ask(harness):
    """For twice the time a slot has and a minute, where the store can; longer is no harm."""
    assert isinstance(harness.backend, ClaimBackend)

    for within in (timedelta(0), SECOND, MINUTE, HOUR):
        remembered = harness.backend.remembers(within)
        assert remembered is None or remembered >= 2 * within + MINUTE


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
    """Whether a slot is due or late; a client an hour off changes nothing."""
    set_off(off, monkeypatch)
    astray = Asker(await connect())

    now = await astray.time()

    assert abs(now - await ask.time()) < MINUTE
    assert (await astray.claim(now + MINUTE, "a")).outcome is Outcome.NONE
    assert (await astray.claim(due - HOUR, "a")).outcome is Outcome.LATE
    assert (await astray.claim(due, "a", within=5 * MINUTE)).outcome is Outcome.WON
    assert (await ask.claim(due, "b", within=5 * MINUTE)).outcome is Outcome.DONE


async def test_a_store_that_was_emptied_goes_on(harness, connect, ask, due):
    """What it has lost may run again, once, if it is still in time; nothing else breaks."""
    other = Asker(await connect())
    await ask.claim(due, "a")
    await other.claim(due + SECOND, "b")

    await harness.empty()

    heard = [
        (await ask.claim(due, "c")).outcome,
        (await other.claim(due, "d")).outcome,
        (await other.claim(due + 2 * SECOND, "d")).outcome,
        (await ask.claim(due - HOUR, "c", within=MINUTE)).outcome,
    ]
    assert heard[:3] == [Outcome.WON, Outcome.DONE, Outcome.WON]
    # where an older slot cannot be won, that it is late is not said
    assert heard[3] in (Outcome.LATE, Outcome.DONE)


@pytest.mark.parametrize("steps", range(12))
async def test_a_call_given_up_midway_leaves_a_clean_connection(store, ask, due, steps):
    await give_up(store.claim([scheduled(due, "a")]), steps)

    # whether it happened or not, asking again under the same token tells
    answer = await ask.claim(due, "a")

    assert (answer.outcome, answer.attempt) == (Outcome.WON, 1)
    assert (await ask.claim(due, "b")).outcome is Outcome.DONE


async def test_calls_given_up_one_after_the_other_do_no_harm(store, due):
    claims = [scheduled(due, "a", job=f"job-{count}") for count in range(30)]
    for steps in range(30):
        await give_up(store.claim(claims), steps)

    reply = await store.claim(claims)

    assert {answer.outcome for answer in reply.answers} == {Outcome.WON}


@needs(Feature.HISTORY)
@pytest.mark.parametrize("steps", range(6))
async def test_a_record_whose_saving_was_given_up_can_be_saved(store, ask, due, steps):
    await ask.claim(due)
    for _ in range(3):
        await give_up(ask.save(ended(due, RunState.FAILED, "no")), steps)

    await ask.save(ended(due, RunState.FAILED, "no"))

    assert await ask.history() == (ended(due, RunState.FAILED, "no"),)


async def test_a_call_given_up_keeps_no_other_connection_waiting(store, connect, due):
    other = Asker(await connect())
    await give_up(store.claim([scheduled(due, "a")]), 1)

    async with SystemClock().timeout(10):
        await other.claim(due, "b")


async def test_a_store_closed_with_a_call_under_way_leaves_nothing(harness):
    store = harness.connect(NAMESPACE)
    await store.open()
    await give_up(store.claim(()), 1)

    await store.close()

    assert list(await harness.leftovers()) == []


async def test_an_opening_given_up_midway_leaves_nothing(harness):
    for steps in (0, 1, 2, 3, 5, 8, 13, 21):
        store = harness.connect()
        await give_up(store.open(), steps)
        await store.close()

    assert list(await harness.leftovers()) == []
