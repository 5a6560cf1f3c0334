"""Claims of slots nobody has started, and of runs that live or have ended."""

from __future__ import annotations

from datetime import timedelta

import pytest

from anarchon.clock import to_millis
from anarchon.run import Overlap, RunState
from anarchon.store import Mode, Outcome
from anarchon_contract.leases.questions import DAY, JOB, LEASE, MINUTE


async def test_the_first_claim_of_a_due_slot_wins(ask, due):
    answer = await ask.claim(due, instance="web-7", lease=timedelta(seconds=20))

    assert answer.outcome is Outcome.WON
    assert answer.attempt == 1
    assert answer.lease == timedelta(seconds=20)
    assert answer.holder == "web-7"
    assert answer.blocker is None


async def test_a_second_claim_of_a_live_lease_loses(ask, due):
    """G1"""
    won = await ask.claim(due, "a", instance="web-1", lease=timedelta(seconds=20))

    answer = await ask.claim(due, "b", instance="web-2", lease=timedelta(seconds=5))

    assert answer.outcome is Outcome.RUNNING
    assert answer.attempt == 1
    assert answer.fence == won.fence
    assert answer.lease == timedelta(seconds=20)
    assert answer.holder == "web-1"


async def test_a_look_at_a_live_lease_hears_that_it_runs(ask, due):
    """G1"""
    await ask.claim(due, "a")

    assert (await ask.take_over(due, "b")).outcome is Outcome.RUNNING


async def test_the_same_token_hears_again_that_it_won(ask, due):
    first = await ask.claim(due, "a")

    again = await ask.claim(due, "a")

    assert again == first
    assert len(await ask.history()) == 1


@pytest.mark.parametrize("mode", Mode)
async def test_the_same_token_hears_it_in_every_mode(ask, due, mode):
    first = await ask.claim(due, "a")

    assert await ask.claim(due, "a", mode=mode) == first


async def test_asking_again_keeps_the_length_of_the_lease(ask, due):
    await ask.claim(due, "a", lease=timedelta(seconds=20))

    assert (await ask.claim(due, "a", lease=timedelta(hours=1))).lease == timedelta(seconds=20)


async def test_a_claim_before_its_slot_hears_none(ask, due, now):
    answer = await ask.claim(now + timedelta(hours=1))

    assert answer.outcome is Outcome.NONE
    assert await ask.history() == ()


async def test_a_look_never_starts_a_slot(ask, due):
    answer = await ask.take_over(due)

    assert answer.outcome is Outcome.NONE
    assert (await ask.claim(due, "c")).outcome is Outcome.WON


@pytest.mark.parametrize("mode", [Mode.SCHEDULED, Mode.CATCH_UP])
async def test_a_claim_later_than_allowed_hears_late(ask, due, mode):
    answer = await ask.claim(due, mode=mode, within=timedelta(seconds=30))

    assert answer.outcome is Outcome.LATE
    assert await ask.history() == ()


async def test_a_late_claim_keeps_nobody_with_more_time_from_the_slot(ask, due):
    await ask.claim(due, "a", within=timedelta(seconds=30))

    assert (await ask.claim(due, "b", within=5 * MINUTE)).outcome is Outcome.WON


async def test_a_catch_up_wins_a_slot_nobody_claimed(ask, due):
    answer = await ask.claim(due - 2 * MINUTE, mode=Mode.CATCH_UP)

    assert answer.outcome is Outcome.WON


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("state", [RunState.SUCCESS, RunState.FAILED, RunState.PUBLISHED])
async def test_a_finished_slot_is_done_for_everybody(ask, due, mode, state):
    """G2"""
    await ask.claim(due, "a")
    await ask.finish(due, "a", state)

    assert (await ask.claim(due, "b", mode=mode)).outcome is Outcome.DONE
    assert (await ask.claim(due, "a", mode=mode)).outcome is Outcome.DONE


async def test_a_finished_slot_is_done_even_when_it_is_late(ask, due):
    await ask.claim(due, "a")
    await ask.finish(due, "a")

    answer = await ask.claim(due, "b", within=timedelta(seconds=1))

    assert answer.outcome is Outcome.DONE


async def test_a_job_met_first_has_nothing_to_catch_up(ask, now):
    """The floor starts at the store's time when the record is made."""
    assert (await ask.claim(now - MINUTE, mode=Mode.CATCH_UP, within=DAY)).outcome is Outcome.DONE
    assert (await ask.claim(now - MINUTE)).outcome is Outcome.DONE


async def test_a_slot_in_time_is_won_though_the_store_lost_its_data(ask, now):
    """Whoever claims a slot has registered its job: a record that is missing was lost."""
    assert (await ask.claim(now - MINUTE, within=DAY)).outcome is Outcome.WON
    assert (await ask.claim(now - 2 * MINUTE, within=DAY)).outcome is Outcome.DONE


async def test_a_late_slot_is_not_won_though_the_store_lost_its_data(ask, now):
    assert (await ask.claim(now - MINUTE, within=MINUTE / 2)).outcome is Outcome.DONE
    assert (await ask.claim(now - MINUTE / 2, within=DAY)).outcome is Outcome.DONE


async def test_a_first_claim_before_its_slot_leaves_all_slots_that_are_to_come(ask, now):
    assert (await ask.claim(now + DAY, within=DAY)).outcome is Outcome.NONE

    assert (await ask.claim(now + DAY / 2, within=DAY)).outcome is Outcome.NONE


async def test_a_first_claim_makes_the_record_whatever_it_hears(ask, harness, now):
    await ask.claim(now - MINUTE, mode=Mode.CATCH_UP)

    # raises where there is no record
    await harness.lower_floor([JOB], now - DAY)

    assert (await ask.claim(now - MINUTE)).outcome is Outcome.WON


async def test_a_slot_at_the_floor_is_done(ask, harness, due):
    await harness.lower_floor([JOB], due)

    assert (await ask.claim(due)).outcome is Outcome.DONE


async def test_a_slot_one_millisecond_above_the_floor_may_be_won(ask, harness, due):
    await harness.lower_floor([JOB], due - timedelta(milliseconds=1))

    assert (await ask.claim(due)).outcome is Outcome.WON


async def test_slots_of_one_job_a_millisecond_apart_are_two_slots(ask, due):
    later = due + timedelta(milliseconds=1)

    first = await ask.claim(due, "a", overlap=Overlap.ALLOW)
    second = await ask.claim(later, "b", overlap=Overlap.ALLOW)

    assert (first.outcome, second.outcome) == (Outcome.WON, Outcome.WON)
    assert [attempt.slot for attempt in await ask.history()] == [later, due]


async def test_the_fence_grows_from_slot_to_slot(ask, due):
    """G5"""
    fences = []
    for count in range(5):
        slot = due + count * timedelta(seconds=1)
        fences.append((await ask.claim(slot, f"t{count}")).fence)
        await ask.finish(slot, f"t{count}")

    assert fences == sorted(set(fences))


async def test_the_fence_is_no_smaller_than_the_time(ask, due):
    """G5: so that it grows even after the store lost the record."""
    before = await ask.time()

    answer = await ask.claim(due)

    assert answer.fence >= to_millis(before)


async def test_the_fence_grows_while_the_clock_is_behind_it(ask, harness, due):
    """G5: after the store's clock was set back, that is."""
    ahead = to_millis(due + DAY)
    await harness.raise_fence(JOB, ahead)

    first = await ask.claim(due, "a")
    await harness.lapse(JOB, due)
    second = await ask.take_over(due, "b")
    await ask.finish(due, "b")
    third = await ask.claim(due + timedelta(seconds=1), "c")

    assert [first.fence, second.fence, third.fence] == [ahead + 1, ahead + 2, ahead + 3]
    assert [attempt.fence for attempt in await ask.history()] == [ahead + 3, ahead + 2, ahead + 1]


async def test_a_run_to_be_published_begins_as_claimed(ask, due):
    await ask.claim(due, begins_as=RunState.CLAIMED)

    (attempt,) = await ask.history()

    assert attempt.state is RunState.CLAIMED


async def test_a_win_opens_a_history_record(ask, due):
    before = await ask.time()
    won = await ask.claim(due, instance="web-7")

    (attempt,) = await ask.history()

    assert attempt.job == JOB
    assert attempt.slot == due
    assert attempt.attempt == 1
    assert attempt.state is RunState.RUNNING
    assert attempt.instance == "web-7"
    assert attempt.fence == won.fence
    assert attempt.ended is None
    assert attempt.detail is None
    millisecond = timedelta(milliseconds=1)
    assert before - millisecond <= attempt.started <= await ask.time() + millisecond


async def test_losers_write_no_history(ask, due):
    await ask.claim(due, "a")
    before = await ask.history()

    await ask.claim(due, "b")
    await ask.take_over(due, "c")

    assert await ask.history() == before


async def test_the_lease_granted_is_the_one_asked_with(ask, harness, due):
    await ask.claim(due, "a", lease=timedelta(hours=2))
    assert (await ask.register()).unfinished[0].busy

    await harness.lapse(JOB, due)

    assert not (await ask.register()).unfinished[0].busy
    assert (await ask.claim(due, "b")).lease == timedelta(hours=2) != LEASE
