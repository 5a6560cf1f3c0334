"""Renewals, and the two ways an attempt ends by its own token."""

from __future__ import annotations

from datetime import timedelta

import pytest

from anarchon.run import RunState
from anarchon.store import Mode, Outcome
from anarchon_contract.leases.questions import JOB, MINUTE


async def test_a_live_lease_is_renewed(ask, due):
    await ask.claim(due, "a")

    assert await ask.renew(due, "a")


async def test_a_renewal_under_another_token_is_refused(ask, due):
    """G4"""
    await ask.claim(due, "a")

    assert not await ask.renew(due, "b")


async def test_a_lapsed_lease_is_not_renewed(ask, harness, due):
    await ask.claim(due, "a")
    await harness.lapse(JOB, due)

    assert not await ask.renew(due, "a")
    assert (await ask.take_over(due, "b")).outcome is Outcome.WON


async def test_a_renewal_sets_the_lease_the_run_began_with(ask, harness, due):
    await ask.claim(due, "a", lease=timedelta(seconds=30))

    await ask.renew(due, "a")

    assert (await ask.claim(due, "b")).lease == timedelta(seconds=30)
    assert (await ask.register()).unfinished[0].busy


async def test_an_ended_run_is_not_renewed(ask, due):
    await ask.claim(due, "a")
    await ask.finish(due, "a")

    assert not await ask.renew(due, "a")


async def test_a_released_lease_is_not_renewed(ask, due):
    await ask.claim(due, "a")
    await ask.release(due, "a")

    assert not await ask.renew(due, "a")
    assert not (await ask.register()).unfinished[0].busy


async def test_nothing_is_written_for_a_slot_nobody_claimed(ask, due):
    assert not await ask.renew(due, "a")
    assert not await ask.finish(due, "a")
    assert not await ask.release(due, "a")
    assert await ask.history() == ()


async def test_nothing_is_written_for_a_job_nobody_knows(ask, due):
    assert not await ask.renew(due, "a", job="other")
    assert not await ask.finish(due, "a", job="other")
    assert not await ask.release(due, "a", job="other")
    assert await ask.history("other") == ()


@pytest.mark.parametrize("state", [RunState.SUCCESS, RunState.FAILED, RunState.PUBLISHED])
async def test_a_finish_closes_the_history_record(ask, due, state):
    before = await ask.time()
    await ask.claim(due, "a", instance="web-7")

    assert await ask.finish(due, "a", state, "what came of it")

    (attempt,) = await ask.history()
    assert attempt.state is state
    assert attempt.detail == "what came of it"
    assert attempt.instance == "web-7"
    assert attempt.ended is not None
    assert attempt.ended >= attempt.started >= before - timedelta(milliseconds=1)


async def test_a_finish_under_another_token_is_refused(ask, due):
    """G4"""
    await ask.claim(due, "a")
    before = await ask.history()

    assert not await ask.finish(due, "b")

    assert await ask.history() == before


async def test_the_token_that_finished_hears_the_same_again(ask, due):
    await ask.claim(due, "a")
    await ask.finish(due, "a", RunState.SUCCESS, "first")
    before = await ask.history()

    assert await ask.finish(due, "a", RunState.FAILED, "second")

    assert await ask.history() == before


async def test_another_token_is_still_refused_once_the_run_was_finished(ask, due):
    """G4"""
    await ask.claim(due, "a")
    await ask.finish(due, "a")

    assert not await ask.finish(due, "b")


async def test_a_finish_after_the_lease_lapsed_is_accepted_until_somebody_takes_over(
    ask, harness, due
):
    await ask.claim(due, "a")
    await harness.lapse(JOB, due)

    assert await ask.finish(due, "a")

    assert (await ask.take_over(due, "b")).outcome is Outcome.DONE
    assert [attempt.state for attempt in await ask.history()] == [RunState.SUCCESS]


async def test_a_finished_run_leaves_nothing_unfinished(ask, due):
    await ask.claim(due, "a")
    await ask.finish(due, "a")

    assert (await ask.register()).unfinished == ()


async def test_a_release_closes_the_attempt_as_interrupted(ask, due):
    """G7"""
    await ask.claim(due, "a")

    assert await ask.release(due, "a")

    (attempt,) = await ask.history()
    assert attempt.state is RunState.INTERRUPTED
    assert attempt.ended is not None


async def test_a_released_run_waits_for_a_takeover(ask, due):
    """G7"""
    await ask.claim(due, "a", instance="web-1")
    await ask.release(due, "a")

    (waiting,) = (await ask.register()).unfinished

    assert (waiting.slot, waiting.attempt, waiting.busy) == (due, 1, False)
    assert (await ask.claim(due, "b")).outcome is Outcome.RUNNING


async def test_a_release_under_another_token_is_refused(ask, due):
    """G4"""
    await ask.claim(due, "a")

    assert not await ask.release(due, "b")
    assert await ask.renew(due, "a")


async def test_the_token_that_was_released_hears_the_same_again(ask, due):
    await ask.claim(due, "a")
    await ask.release(due, "a")
    before = await ask.history()

    assert await ask.release(due, "a")

    assert await ask.history() == before


async def test_the_token_that_was_released_hears_the_same_after_a_takeover(ask, due):
    await ask.claim(due, "a")
    await ask.release(due, "a")
    await ask.take_over(due, "b")

    assert await ask.release(due, "a")
    assert await ask.renew(due, "b")


async def test_a_released_token_finishes_nothing(ask, due):
    """G4"""
    await ask.claim(due, "a")
    await ask.release(due, "a")

    assert not await ask.finish(due, "a")
    assert (await ask.history())[0].state is RunState.INTERRUPTED


async def test_a_finished_run_is_not_released(ask, due):
    await ask.claim(due, "a")
    await ask.finish(due, "a")

    assert not await ask.release(due, "a")
    assert (await ask.take_over(due, "b")).outcome is Outcome.DONE


async def test_a_lapsed_lease_may_be_released_until_somebody_takes_over(ask, harness, due):
    await ask.claim(due, "a")
    await harness.lapse(JOB, due)

    assert await ask.release(due, "a")
    assert (await ask.history())[0].state is RunState.INTERRUPTED


async def test_a_run_of_one_attempt_that_had_not_begun_waits_for_a_takeover(ask, due):
    await ask.claim(due, "a", max_attempts=1)

    assert await ask.release(due, begun=False)

    assert (await ask.claim(due, "b", mode=Mode.TAKEOVER)).outcome is Outcome.WON


async def test_a_release_ends_a_run_of_one_attempt(ask, due):
    await ask.claim(due, "a", max_attempts=1)

    assert await ask.release(due, "a")

    assert (await ask.register()).unfinished == ()
    assert (await ask.history())[0].state is RunState.INTERRUPTED
    for mode in Mode:
        assert (await ask.claim(due, "b", mode=mode)).outcome is Outcome.DONE
    assert await ask.release(due, "a")


async def test_a_run_that_was_replaced_takes_no_release(ask, harness, due):
    """G4"""
    await ask.claim(due - MINUTE, "a")
    await harness.lapse(JOB, due - MINUTE)
    await ask.claim(due, "b")

    assert not await ask.release(due - MINUTE, "a")
    assert not await ask.renew(due - MINUTE, "a")


@pytest.mark.parametrize("length", [0, 2000])
async def test_details_of_any_length_are_kept(ask, due, length):
    detail = "λ" * length
    await ask.claim(due, "a")
    await ask.finish(due, "a", RunState.FAILED, detail)

    assert (await ask.history())[0].detail == detail
