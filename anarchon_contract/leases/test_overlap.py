"""May a slot start while another run of its job is busy?"""

from __future__ import annotations

import pytest

from anarchon.run import Overlap, RunState
from anarchon.store import Mode, Outcome
from anarchon_contract.leases.questions import JOB, MINUTE

HALF = MINUTE / 2


@pytest.mark.parametrize("other", [-HALF, HALF], ids=["older", "newer"])
async def test_a_busy_run_keeps_another_slot_from_starting(ask, due, other):
    """G3"""
    await ask.claim(due + other, "a", instance="web-1")

    answer = await ask.claim(due, "b")

    assert answer.outcome is Outcome.OVERLAP
    assert answer.blocker == due + other
    assert answer.holder == "web-1"


@pytest.mark.parametrize("other", [-HALF, HALF], ids=["older", "newer"])
async def test_slots_that_may_overlap_do(ask, due, other):
    await ask.claim(due + other, "a", overlap=Overlap.ALLOW)

    assert (await ask.claim(due, "b", overlap=Overlap.ALLOW)).outcome is Outcome.WON


async def test_the_claim_that_asks_brings_the_rule(ask, due):
    await ask.claim(due - HALF, "a", overlap=Overlap.ALLOW)

    assert (await ask.claim(due, "b", overlap=Overlap.SKIP)).outcome is Outcome.OVERLAP


async def test_of_several_busy_runs_the_oldest_is_named(ask, due):
    await ask.claim(due + HALF, "a", overlap=Overlap.ALLOW)
    await ask.claim(due - HALF, "b", overlap=Overlap.ALLOW)

    assert (await ask.claim(due, "c")).blocker == due - HALF


async def test_runs_of_another_job_do_not_matter(ask, meet, due):
    await meet("other")
    await ask.claim(due, "a", job="other")

    assert (await ask.claim(due, "b")).outcome is Outcome.WON


async def test_a_finished_run_keeps_nobody_from_starting(ask, due):
    await ask.claim(due - HALF, "a")
    await ask.finish(due - HALF, "a")

    assert (await ask.claim(due, "b")).outcome is Outcome.WON


@pytest.mark.parametrize("other", [-HALF, HALF], ids=["older", "newer"])
async def test_a_new_run_ends_a_lapsed_one_as_lost(ask, harness, due, other):
    """G4, G9"""
    await ask.claim(due + other, "a", instance="web-1")
    await harness.lapse(JOB, due + other)

    assert (await ask.claim(due, "b")).outcome is Outcome.WON

    replaced = next(a for a in await ask.history() if a.slot == due + other)
    assert (replaced.state, replaced.instance) == (RunState.LOST, "web-1")
    assert replaced.ended is not None
    assert not await ask.finish(due + other, "a")
    assert (await ask.take_over(due + other, "c")).outcome is Outcome.DONE
    assert [run.slot for run in (await ask.register()).unfinished] == [due]


async def test_a_new_run_ends_a_released_one_as_interrupted(ask, due):
    await ask.claim(due - HALF, "a")
    await ask.release(due - HALF, "a")
    closed = (await ask.history())[0].ended

    assert (await ask.claim(due, "b")).outcome is Outcome.WON

    replaced = (await ask.history())[1]
    assert replaced.state is RunState.INTERRUPTED
    # its attempt was closed when it was given back, and keeps that time
    assert replaced.ended == closed
    assert (await ask.take_over(due - HALF, "c")).outcome is Outcome.DONE


async def test_a_new_run_ends_every_unfinished_one(ask, harness, due):
    for count in range(3):
        await ask.claim(due - (count + 1) * HALF, f"t{count}", overlap=Overlap.ALLOW)
        await harness.lapse(JOB, due - (count + 1) * HALF)

    await ask.claim(due, "b")

    assert [run.slot for run in (await ask.register()).unfinished] == [due]
    states = [attempt.state for attempt in await ask.history()]
    assert states == [RunState.RUNNING, RunState.LOST, RunState.LOST, RunState.LOST]


async def test_where_runs_may_overlap_a_new_one_ends_none(ask, harness, due):
    await ask.claim(due - HALF, "a")
    await harness.lapse(JOB, due - HALF)

    await ask.claim(due, "b", overlap=Overlap.ALLOW)

    assert [run.slot for run in (await ask.register()).unfinished] == [due - HALF, due]
    assert (await ask.take_over(due - HALF, "c", overlap=Overlap.ALLOW)).outcome is Outcome.OVERLAP
    await ask.finish(due, "b")
    assert (await ask.take_over(due - HALF, "c")).outcome is Outcome.WON


async def test_a_skipped_slot_is_marked_in_the_history(ask, due):
    await ask.claim(due - HALF, "a")

    await ask.claim(due, "b", instance="web-2")

    mark = (await ask.history())[0]
    assert (mark.slot, mark.attempt, mark.state) == (due, 0, RunState.SKIPPED)
    assert (mark.instance, mark.fence) == ("web-2", 0)
    assert mark.ended is not None


async def test_a_skipped_slot_is_marked_once(ask, due):
    await ask.claim(due - HALF, "a")
    await ask.claim(due, "b", instance="web-2")
    before = await ask.history()

    assert (await ask.claim(due, "c", instance="web-3")).outcome is Outcome.OVERLAP

    assert await ask.history() == before


async def test_a_skipped_slot_is_not_unfinished(ask, due):
    await ask.claim(due - HALF, "a")
    await ask.claim(due, "b")

    assert [run.slot for run in (await ask.register()).unfinished] == [due - HALF]


async def test_a_catch_up_takes_a_skipped_slot_as_done(ask, due):
    await ask.claim(due - HALF, "a")
    await ask.claim(due, "b")
    await ask.finish(due - HALF, "a")

    assert (await ask.claim(due, "c", mode=Mode.CATCH_UP)).outcome is Outcome.DONE


async def test_a_scheduled_claim_in_time_still_wins_a_skipped_slot(ask, due):
    await ask.claim(due - HALF, "a")
    await ask.claim(due, "b")
    await ask.finish(due - HALF, "a")

    answer = await ask.claim(due, "c")

    assert (answer.outcome, answer.attempt) == (Outcome.WON, 1)
    assert {(a.attempt, a.state) for a in await ask.history() if a.slot == due} == {
        (0, RunState.SKIPPED),
        (1, RunState.RUNNING),
    }


async def test_a_run_of_a_skipped_slot_is_as_any_other(ask, harness, due):
    """Nothing of the claim that left the mark holds for it."""
    await ask.claim(due - HALF, "a")
    await ask.claim(due, "b", lease=5 * MINUTE, max_attempts=9)
    await ask.finish(due - HALF, "a")
    terms = {"max_attempts": 2, "overlap": Overlap.ALLOW, "begins_as": RunState.CLAIMED}
    await ask.claim(due, "c", lease=MINUTE, **terms)

    look = await ask.take_over(due, "d")

    assert (look.outcome, look.lease) == (Outcome.RUNNING, MINUTE)
    assert await ask.renew(due, "c")
    await harness.lapse(JOB, due)
    await ask.claim(due + HALF, "n", overlap=Overlap.ALLOW)
    assert (await ask.take_over(due, "d")).outcome is Outcome.WON
    assert (await ask.history())[1].state is RunState.CLAIMED
    await harness.lapse(JOB, due)
    assert (await ask.take_over(due, "e")).outcome is Outcome.DONE


async def test_a_look_at_a_skipped_slot_hears_none(ask, due):
    await ask.claim(due - HALF, "a")
    await ask.claim(due, "b")

    assert (await ask.take_over(due, "c")).outcome is Outcome.NONE


async def test_a_skipped_slot_that_is_too_late_hears_late(ask, due):
    await ask.claim(due - HALF, "a")
    await ask.claim(due, "b")

    assert (await ask.claim(due, "c", within=HALF)).outcome is Outcome.LATE


async def test_a_catch_up_that_overlaps_marks_the_slot_too(ask, due):
    await ask.claim(due - HALF, "a")

    assert (await ask.claim(due, "b", mode=Mode.CATCH_UP)).outcome is Outcome.OVERLAP
    assert (await ask.claim(due, "b", mode=Mode.CATCH_UP)).outcome is Outcome.DONE
