"""What becomes of a run whose lease lapsed or was given back."""

from __future__ import annotations

from datetime import timedelta

import pytest

from anarchon.run import Overlap, RunState
from anarchon.store import Mode, Outcome
from anarchon_contract.leases.questions import JOB, MINUTE


async def test_a_look_takes_over_a_lapsed_run(ask, harness, due):
    """G6"""
    first = await ask.claim(due, "a", instance="web-1")
    await harness.lapse(JOB, due)

    answer = await ask.take_over(due, "b", instance="web-2")

    assert answer.outcome is Outcome.WON
    assert answer.attempt == 2
    assert answer.holder == "web-2"
    assert answer.lease == first.lease


async def test_a_look_takes_over_a_released_run(ask, due):
    """G7"""
    await ask.claim(due, "a")
    await ask.release(due, "a")

    answer = await ask.take_over(due, "b")

    assert answer.outcome is Outcome.WON
    assert answer.attempt == 2


@pytest.mark.parametrize("mode", [Mode.SCHEDULED, Mode.CATCH_UP])
async def test_a_claim_that_is_no_look_leaves_a_lapsed_run_alone(ask, harness, due, mode):
    await ask.claim(due, "a")
    await harness.lapse(JOB, due)

    assert (await ask.claim(due, "b", mode=mode)).outcome is Outcome.RUNNING
    assert (await ask.claim(due, "a", mode=mode)).outcome is Outcome.RUNNING


async def test_a_lapsed_run_is_taken_over_however_late_it_is(ask, harness, due):
    await ask.claim(due, "a")
    await harness.lapse(JOB, due)

    answer = await ask.take_over(due, "b", within=timedelta(seconds=1))

    assert answer.outcome is Outcome.WON


async def test_a_look_asked_again_after_its_lease_lapsed_starts_no_other_attempt(ask, harness, due):
    """G4: who asked first may still work under that token."""
    await ask.claim(due, "a")
    await harness.lapse(JOB, due)
    await ask.take_over(due, "b")
    await harness.lapse(JOB, due)

    assert (await ask.take_over(due, "b")).outcome is Outcome.RUNNING
    assert (await ask.take_over(due, "c")).attempt == 3
    await harness.lapse(JOB, due)
    assert (await ask.take_over(due, "b")).outcome is Outcome.RUNNING
    assert (await ask.take_over(due, "a")).outcome is Outcome.RUNNING
    assert not await ask.release(due, "b")


async def test_the_fence_grows_with_a_takeover(ask, harness, due):
    """G5"""
    first = await ask.claim(due, "a")
    await harness.lapse(JOB, due)

    assert (await ask.take_over(due, "b")).fence > first.fence


async def test_the_token_that_took_over_hears_again_that_it_won(ask, harness, due):
    await ask.claim(due, "a")
    await harness.lapse(JOB, due)
    won = await ask.take_over(due, "b")

    assert await ask.take_over(due, "b") == won


async def test_the_former_token_hears_that_another_runs(ask, harness, due):
    """G1, G4"""
    await ask.claim(due, "a", instance="web-1")
    await harness.lapse(JOB, due)
    await ask.take_over(due, "b", instance="web-2")

    for mode in Mode:
        answer = await ask.claim(due, "a", mode=mode)
        assert (answer.outcome, answer.holder) == (Outcome.RUNNING, "web-2")


async def test_the_former_token_writes_nothing_after_a_takeover(ask, harness, due):
    """G4"""
    await ask.claim(due, "a")
    await harness.lapse(JOB, due)
    await ask.take_over(due, "b")
    before = await ask.history()

    assert not await ask.renew(due, "a")
    assert not await ask.finish(due, "a")
    assert not await ask.release(due, "a")

    assert await ask.history() == before
    assert await ask.renew(due, "b")
    assert await ask.finish(due, "b")


async def test_the_former_token_writes_nothing_once_the_new_one_finished(ask, harness, due):
    """G4"""
    await ask.claim(due, "a")
    await harness.lapse(JOB, due)
    await ask.take_over(due, "b")
    await ask.finish(due, "b", RunState.FAILED)
    before = await ask.history()

    assert not await ask.finish(due, "a", RunState.SUCCESS)
    assert not await ask.release(due, "a")

    assert await ask.history() == before


async def test_a_takeover_closes_the_attempt_that_lapsed(ask, harness, due):
    await ask.claim(due, "a", instance="web-1")
    await harness.lapse(JOB, due)
    await ask.take_over(due, "b", instance="web-2")

    second, first = await ask.history()

    assert (first.attempt, first.state, first.instance) == (1, RunState.LOST, "web-1")
    assert first.ended is not None
    assert (second.attempt, second.state, second.instance) == (2, RunState.RUNNING, "web-2")
    assert second.ended is None


async def test_a_run_out_of_attempts_ends_as_lost(ask, harness, due):
    await ask.claim(due, "a", max_attempts=2)
    await harness.lapse(JOB, due)
    await ask.take_over(due, "b")
    await harness.lapse(JOB, due)

    assert (await ask.take_over(due, "c")).outcome is Outcome.DONE

    assert [attempt.state for attempt in await ask.history()] == [RunState.LOST, RunState.LOST]
    assert (await ask.register()).unfinished == ()
    assert not await ask.finish(due, "b")


async def test_a_run_of_one_attempt_that_lapsed_is_never_started_again(ask, harness, due):
    await ask.claim(due, "a", max_attempts=1)
    await harness.lapse(JOB, due)

    assert (await ask.take_over(due, "b")).outcome is Outcome.DONE
    assert (await ask.claim(due, "c")).outcome is Outcome.DONE


async def test_attempts_that_were_released_are_not_counted(ask, harness, due):
    await ask.claim(due, "t0", max_attempts=2)
    for count in range(4):
        await ask.release(due, f"t{count}")
        assert (await ask.take_over(due, f"t{count + 1}")).attempt == count + 2
    await harness.lapse(JOB, due)

    assert (await ask.take_over(due, "u")).outcome is Outcome.WON
    await harness.lapse(JOB, due)
    assert (await ask.take_over(due, "v")).outcome is Outcome.DONE


async def test_the_terms_of_the_first_attempt_hold_for_the_run(ask, harness, due):
    await ask.claim(
        due,
        "a",
        lease=timedelta(seconds=20),
        max_attempts=2,
        overlap=Overlap.ALLOW,
        begins_as=RunState.CLAIMED,
    )
    await ask.claim(due + MINUTE / 2, "z", overlap=Overlap.ALLOW)
    await harness.lapse(JOB, due)

    other = {
        "lease": timedelta(seconds=5),
        "max_attempts": 9,
        "overlap": Overlap.SKIP,
        "begins_as": RunState.RUNNING,
    }
    answer = await ask.take_over(due, "b", **other)

    assert answer.outcome is Outcome.WON
    assert answer.lease == timedelta(seconds=20)
    assert (await ask.history())[1].state is RunState.CLAIMED
    await harness.lapse(JOB, due)
    assert (await ask.take_over(due, "c", **other)).outcome is Outcome.DONE


async def test_a_token_that_was_given_back_never_starts_an_attempt_again(ask, due):
    """A repeat that was long on the way must not revive the lease."""
    await ask.claim(due, "a")
    await ask.release(due, "a")

    for mode in Mode:
        assert (await ask.claim(due, "a", mode=mode)).outcome is Outcome.RUNNING
    assert len(await ask.history()) == 1
    assert not (await ask.register()).unfinished[0].busy


async def test_every_token_given_back_stays_spent(ask, due):
    await ask.claim(due, "a")
    await ask.release(due, "a")
    await ask.take_over(due, "b")
    await ask.release(due, "b")

    assert (await ask.take_over(due, "a")).outcome is Outcome.RUNNING
    assert (await ask.take_over(due, "b")).outcome is Outcome.RUNNING
    assert (await ask.take_over(due, "c")).attempt == 3


async def test_a_takeover_waits_while_a_newer_run_is_busy(ask, harness, due):
    """G3"""
    newer = due + MINUTE / 2
    await ask.claim(due, "a", overlap=Overlap.SKIP)
    await ask.claim(newer, "n", instance="web-9", overlap=Overlap.ALLOW)
    await harness.lapse(JOB, due)

    answer = await ask.take_over(due, "b")

    assert answer.outcome is Outcome.OVERLAP
    assert answer.blocker == newer
    assert answer.holder == "web-9"
    assert len(await ask.history()) == 2
    await ask.finish(newer, "n")
    assert (await ask.take_over(due, "b")).outcome is Outcome.WON


async def test_a_run_out_of_attempts_ends_even_while_another_is_busy(ask, harness, due):
    await ask.claim(due, "a", max_attempts=1)
    await ask.claim(due + MINUTE / 2, "n", overlap=Overlap.ALLOW)
    await harness.lapse(JOB, due)

    assert (await ask.take_over(due, "b")).outcome is Outcome.DONE
