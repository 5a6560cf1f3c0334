"""Retention never changes an answer."""

from __future__ import annotations

from datetime import timedelta

import pytest

from anarchon.clock import to_millis
from anarchon.run import Overlap, RunState
from anarchon.store import RETENTION, Mode, Outcome, Prune
from anarchon_contract.leases.questions import DAY, JOB, MINUTE

SECOND = timedelta(seconds=1)


@pytest.fixture
async def finished(ask, due):
    """Five finished slots, a second apart, oldest first."""
    slots = [due + count * SECOND for count in range(5)]
    for count, slot in enumerate(slots):
        await ask.claim(slot, f"t{count}")
        await ask.finish(slot, f"t{count}")
    return slots


async def test_the_newest_attempts_are_kept(ask, finished):
    assert await ask.prune(keep=2) == 3

    assert [attempt.slot for attempt in await ask.history()] == finished[:2:-1]


async def test_nothing_goes_while_there_is_room(ask, finished):
    assert await ask.prune(keep=5) == 0
    assert len(await ask.history()) == 5


async def test_no_attempts_at_all_may_be_kept(ask, finished):
    assert await ask.prune(keep=0) == 5
    assert await ask.history() == ()


@pytest.mark.parametrize("mode", Mode)
async def test_a_pruned_slot_is_never_won_again(ask, finished, mode):
    """G2"""
    await ask.prune(keep=2)

    for slot in finished:
        answer = await ask.claim(slot, "late", mode=mode, within=DAY)
        assert answer.outcome is Outcome.DONE


async def test_a_slot_below_the_newest_pruned_one_is_done(ask, finished):
    """The floor is one slot for the whole job."""
    await ask.prune(keep=2)

    answer = await ask.claim(finished[0] - SECOND, "late", within=DAY)

    assert answer.outcome is Outcome.DONE


async def test_a_slot_above_the_pruned_ones_may_still_be_won(ask, finished):
    await ask.prune(keep=2)

    answer = await ask.claim(finished[2] + SECOND / 2, "new")

    assert answer.outcome is Outcome.WON


async def test_the_floor_is_never_lowered(ask, due):
    """G2"""
    for count in range(2):
        await ask.claim(due + count * SECOND, f"t{count}", overlap=Overlap.ALLOW)
    await ask.finish(due + SECOND, "t1")
    await ask.prune(keep=0)
    await ask.finish(due, "t0")

    assert await ask.prune(keep=0) == 1

    assert (await ask.claim(due + SECOND, "late", within=DAY)).outcome is Outcome.DONE


async def test_slots_that_may_still_be_claimed_in_time_are_spared(ask, finished):
    assert await ask.prune(keep=0, spare=5 * MINUTE) == 0

    assert len(await ask.history()) == 5


async def test_attempts_older_than_a_month_go_however_few_there_are(ask, due):
    old = due - RETENTION
    for count, slot in enumerate([old, due]):
        await ask.claim(slot, f"t{count}", within=60 * DAY)
        await ask.finish(slot, f"t{count}")

    assert await ask.prune(keep=1000, spare=5 * MINUTE) == 1

    assert [attempt.slot for attempt in await ask.history()] == [due]
    assert (await ask.claim(old, "late", within=60 * DAY)).outcome is Outcome.DONE


async def test_an_unfinished_run_is_not_touched(ask, harness, due):
    await ask.claim(due, "a", overlap=Overlap.ALLOW)
    await ask.claim(due + SECOND, "b", overlap=Overlap.ALLOW)
    await ask.finish(due + SECOND, "b")
    await harness.lapse(JOB, due)

    assert await ask.prune(keep=0) == 1

    assert [attempt.slot for attempt in await ask.history()] == [due]
    assert (await ask.take_over(due, "c")).outcome is Outcome.WON
    assert await ask.finish(due, "c")


async def test_all_attempts_of_a_slot_go_together(ask, due):
    await ask.claim(due, "a")
    await ask.release(due, "a")
    await ask.take_over(due, "b")
    await ask.finish(due, "b")

    # the newest of the two is within the limit, its slot is not
    assert await ask.prune(keep=1) == 2
    assert await ask.history() == ()


async def test_the_marks_of_skipped_slots_go_too(ask, due):
    await ask.claim(due, "a")
    await ask.claim(due + SECOND, "b")
    await ask.finish(due, "a")

    assert await ask.prune(keep=0) == 2

    assert (await ask.claim(due + SECOND, "c")).outcome is Outcome.DONE


async def test_pruning_a_job_nobody_knows_does_nothing(ask, due):
    assert await ask.prune(keep=0, job="other") == 0
    assert await ask.history("other") == ()


async def test_each_job_is_pruned_by_its_own_rule(ask, store, meet, due):
    await meet("a", "b", "c")
    for job in "abc":
        for count in range(3):
            slot = due + count * SECOND
            await ask.claim(slot, f"{job}{count}", job=job)
            await ask.finish(slot, f"{job}{count}", job=job)

    reply = await store.prune(
        [Prune("c", 0, timedelta(0)), Prune("a", 2, timedelta(0)), Prune("b", 0, 5 * MINUTE)]
    )

    assert reply.answers == (3, 1, 0)
    assert len(await ask.history("a", "b", "c")) == 5


async def test_the_fence_outlives_pruning(ask, harness, finished):
    """G5"""
    ahead = to_millis(finished[-1] + DAY)
    await harness.raise_fence(JOB, ahead)
    await ask.prune(keep=0)

    assert (await ask.claim(finished[-1] + SECOND, "new")).fence == ahead + 1


@pytest.mark.parametrize("times", [0, 1], ids=["", "of a job that was looked at before"])
async def test_what_was_unfinished_for_a_month_ends_as_lost(ask, meet, due, times):
    await meet("gone")
    for _ in range(times):
        await ask.prune(job=JOB)
    old = due - RETENTION
    await ask.claim(old, "a", job="gone", within=60 * DAY)
    await ask.release(old, "a", job="gone")

    # of whatever job, so also where no prune names it
    await ask.prune(job=JOB)

    assert (await ask.register(job="gone")).unfinished == ()
    assert (await ask.take_over(old, "b", job="gone")).outcome is Outcome.DONE


async def test_a_run_that_lapsed_a_month_ago_is_closed_in_the_history(ask, harness, due):
    old = due - RETENTION
    await ask.claim(old, "a", within=60 * DAY)
    await harness.lapse(JOB, old)

    # this one ends the run, and the next may delete it
    assert await ask.prune(keep=1000) == 0
    (attempt,) = await ask.history()
    assert attempt.state is RunState.LOST
    assert attempt.ended is not None

    assert await ask.prune(keep=1000) == 1
    assert (await ask.claim(old, "b", within=60 * DAY)).outcome is Outcome.DONE


async def test_a_run_that_is_busy_is_left_alone_however_old_it_is(ask, due):
    old = due - RETENTION
    await ask.claim(old, "a", within=60 * DAY)

    await ask.prune(keep=0)

    assert await ask.renew(old, "a")
    assert await ask.finish(old, "a")


async def test_a_run_unfinished_for_less_than_a_month_is_left_alone(ask, harness, due):
    old = due - RETENTION + 5 * MINUTE
    await ask.claim(old, "a", within=60 * DAY)
    await harness.lapse(JOB, old)

    await ask.prune(keep=0)

    assert (await ask.take_over(old, "b")).outcome is Outcome.WON
