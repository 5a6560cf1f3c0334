"""Schedules whose slots nobody knows beforehand: each is found by the one before it."""

from __future__ import annotations

import pytest

from anarchon.clock import MILLISECOND
from anarchon.store import Mode, Outcome
from anarchon_contract.leases.questions import DAY, HOUR, JOB, MINUTE


async def test_the_newest_slot_of_a_job_met_first_is_its_floor(ask):
    known = await ask.register()

    assert known.first_seen - MILLISECOND < known.newest <= known.first_seen
    assert (await ask.register("v2")).newest == known.newest


async def test_the_newest_slot_is_the_newest_one_that_was_won(ask, due):
    await ask.claim(due)
    assert (await ask.register()).newest == due

    await ask.finish(due)
    await ask.claim(due + MILLISECOND, "b")
    await ask.finish(due + MILLISECOND, "b")
    await ask.claim(due - MINUTE, "c", mode=Mode.CATCH_UP)

    assert (await ask.register()).newest == due + MILLISECOND


async def test_a_skipped_slot_is_the_newest_one_too(ask, due):
    await ask.claim(due)
    assert (await ask.claim(due + MILLISECOND, "b")).outcome is Outcome.OVERLAP

    assert (await ask.register()).newest == due + MILLISECOND


async def test_a_takeover_is_no_newer_slot(ask, harness, due):
    await ask.claim(due)
    await harness.lapse(JOB, due)
    await ask.take_over(due)

    assert (await ask.register()).newest == due


async def test_the_newest_slot_outlives_its_run(ask, due):
    await ask.claim(due)
    await ask.finish(due)
    assert await ask.prune(keep=0) == 1

    assert (await ask.register()).newest == due


@pytest.mark.parametrize("mode", [Mode.SCHEDULED, Mode.CATCH_UP])
async def test_of_two_slots_found_by_the_same_one_the_first_claimed_runs(ask, due, mode):
    """G1: to each instance another moment is the slot."""
    newest = (await ask.register()).newest
    assert (await ask.claim(due, "a", mode=mode, after=newest)).outcome is Outcome.WON
    await ask.finish(due)

    for slot in (due - MILLISECOND, due + MILLISECOND):
        answer = await ask.claim(slot, "b", mode=mode, after=newest)
        assert answer.outcome is Outcome.DONE

    assert [attempt.slot for attempt in await ask.history()] == [due]
    assert (await ask.claim(due + MILLISECOND, "b", mode=mode, after=due)).outcome is Outcome.WON


async def test_a_slot_that_was_skipped_is_decided_as_well(ask, due):
    """Else each look while the other run is busy would find a further slot to skip."""
    await ask.claim(due)
    first = await ask.claim(due + MILLISECOND, "b", after=due)
    second = await ask.claim(due + 2 * MILLISECOND, "c", after=due)

    assert (first.outcome, second.outcome) == (Outcome.OVERLAP, Outcome.DONE)
    assert len(await ask.history()) == 2


async def test_a_claim_whose_answer_was_lost_hears_again_that_it_won(ask, due):
    newest = (await ask.register()).newest
    first = await ask.claim(due, after=newest)

    assert first.outcome is Outcome.WON
    assert await ask.claim(due, after=newest) == first


async def test_a_slot_that_is_not_later_than_the_one_it_was_found_by_is_done(ask, due):
    for after in (due, due + MILLISECOND):
        assert (await ask.claim(due, after=after)).outcome is Outcome.DONE


async def test_who_knows_of_a_newer_slot_than_the_store_may_claim_the_next(ask, due):
    """The store lost its last seconds: what it has lost has run all the same."""
    newest = due - MINUTE

    assert (await ask.register()).newest < newest
    assert (await ask.claim(due, after=newest)).outcome is Outcome.WON
    assert (await ask.claim(due - MILLISECOND, "b", after=newest)).outcome is Outcome.DONE


async def test_a_slot_found_by_a_former_one_is_done_even_when_it_is_late(ask, due):
    await ask.claim(due)

    late = await ask.claim(due + MILLISECOND, "b", within=MILLISECOND, after=due - DAY)

    assert late.outcome is Outcome.DONE


async def test_a_store_that_lost_its_data_lets_one_claim_through(ask, now):
    """Nobody registered since: the first claim makes the record."""
    before = now - DAY

    first = await ask.claim(now - MINUTE, "a", after=before)
    second = await ask.claim(now - MINUTE + MILLISECOND, "b", after=before)

    assert (first.outcome, second.outcome) == (Outcome.WON, Outcome.DONE)
    assert (await ask.register()).newest == now - MINUTE


async def test_a_late_claim_that_makes_the_record_lets_nobody_through(ask, now):
    before = now - DAY
    assert (await ask.claim(now - HOUR, "a", after=before)).outcome is Outcome.DONE

    assert (await ask.claim(now - MINUTE, "b", after=before)).outcome is Outcome.DONE
    assert now <= (await ask.register()).newest <= await ask.time()
