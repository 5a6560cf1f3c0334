"""Published runs that are followed to their end: marked as waiting, begun, kept and ended."""

from __future__ import annotations

from datetime import timedelta

import pytest

from anarchon.run import Overlap, RunState
from anarchon.store import Outcome
from anarchon_contract.leases.questions import JOB, MINUTE, begin_of, tracked_claim_of
from anarchon_contract.leases.test_names import ODD


@pytest.mark.parametrize("queued", [False, True])
async def test_a_delivery_begins_what_was_published(ask, due, queued):
    await ask.publish(due)
    assert await ask.mark(due) or not queued
    before = await ask.time()

    assert await ask.begin(due, holder="pod-1", message="m-1")

    (attempt,) = await ask.history()
    assert (attempt.state, attempt.attempt, attempt.ended) == (RunState.RUNNING, 1, None)
    assert (attempt.instance, attempt.worker, attempt.message) == ("web-1", "pod-1", "m-1")
    assert before <= attempt.begun <= await ask.time()


async def test_what_waits_in_the_broker_is_shown_in_the_history(ask, due):
    await ask.publish(due)
    (claimed,) = await ask.history()
    await ask.mark(due)
    (queued,) = await ask.history()

    assert (claimed.state, queued.state) == (RunState.CLAIMED, RunState.QUEUED)
    assert (queued.worker, queued.message, queued.begun) == (None, None, None)


async def test_a_delivery_of_another_token_begins_nothing(ask, due):
    """G12"""
    await ask.publish(due)

    assert not await ask.begin(due, "b")
    assert [attempt.state for attempt in await ask.history()] == [RunState.CLAIMED]


async def test_nothing_is_begun_of_what_nobody_claimed(ask, due):
    assert not await ask.begin(due)
    assert not await ask.begin(due, job="unknown")
    assert not await ask.mark(due)
    assert not await ask.mark(due, job="unknown")
    assert await ask.history(JOB, "unknown") == ()


async def test_an_untracked_run_is_neither_begun_nor_marked(ask, due):
    await ask.claim(due, begins_as=RunState.CLAIMED)

    assert not await ask.begin(due)
    assert not await ask.begin(due, retry=1)
    assert not await ask.mark(due)


async def test_a_delivery_that_asks_again_hears_the_same(ask, due):
    await ask.publish(due)
    assert await ask.begin(due, nonce="n")
    first = await ask.history()

    assert await ask.begin(due, nonce="n")
    assert await ask.history() == first


async def test_a_second_delivery_of_a_message_begins_nothing(ask, due):
    """G12"""
    await ask.publish(due)
    await ask.mark(due)
    await ask.begin(due, nonce="n", holder="pod-1")

    assert not await ask.begin(due, nonce="other", holder="pod-2")
    assert [attempt.worker for attempt in await ask.history()] == ["pod-1"]


async def test_a_run_that_ended_is_begun_by_nobody(ask, due):
    """G12"""
    await ask.publish(due)
    await ask.begin(due, nonce="n")
    assert await ask.finish(due, nonce="n")

    assert not await ask.begin(due, nonce="n")
    assert not await ask.begin(due, nonce="other", retry=1)


async def test_what_was_taken_over_from_is_begun_by_its_new_message_only(ask, harness, due):
    """G12"""
    await ask.publish(due)
    await harness.lapse(JOB, due)
    assert (await ask.take_over(due, "b")).attempt == 2

    assert not await ask.begin(due, "a", "n")
    assert await ask.begin(due, "b", "m")


async def test_a_worker_keeps_what_it_began_by_its_own_name(ask, due):
    """G4: the instance that published holds it no longer."""
    await ask.publish(due)
    assert await ask.renew(due)
    await ask.begin(due, holder="pod-1")

    assert not await ask.renew(due)
    assert not await ask.renew(due, holder="pod-2")
    assert not await ask.renew(due, "b", holder="pod-1")
    assert await ask.renew(due, holder="pod-1")


async def test_what_waits_is_kept_by_nobody(ask, due):
    await ask.publish(due)
    await ask.mark(due)

    assert not await ask.renew(due)


async def test_a_beginning_sets_the_lease(ask, harness, due):
    """G6: from then on it is a worker that must not go silent."""
    await ask.publish(due)
    await ask.mark(due)
    await ask.begin(due, holder="pod-1")
    await harness.lapse(JOB, due)

    assert not await ask.renew(due, holder="pod-1")
    taken = await ask.take_over(due, "b")
    assert (taken.outcome, taken.attempt) == (Outcome.WON, 2)
    second, first = await ask.history()
    assert (first.state, first.worker, first.message) == (RunState.LOST, "pod-1", "m-1")
    assert (second.state, second.worker, second.begun) == (RunState.CLAIMED, None, None)


async def test_a_lapsed_run_that_nobody_took_over_is_begun_again_by_its_delivery(ask, harness, due):
    await ask.publish(due)
    await ask.begin(due, nonce="n", holder="pod-1")
    await harness.lapse(JOB, due)

    assert not await ask.begin(due, nonce="other", holder="pod-2")
    assert await ask.begin(due, nonce="n", holder="pod-1")
    assert await ask.renew(due, holder="pod-1")


async def test_only_the_delivery_that_began_a_run_ends_it(ask, due):
    """G4"""
    await ask.publish(due)
    await ask.begin(due, nonce="n", holder="pod-1", message="m-1")

    assert not await ask.finish(due)
    assert not await ask.finish(due, nonce="other")
    assert not await ask.finish(due, "b", nonce="n")
    assert await ask.finish(due, detail="42", nonce="n")
    (attempt,) = await ask.history()
    assert (attempt.state, attempt.detail) == (RunState.SUCCESS, "42")
    assert (attempt.worker, attempt.message) == ("pod-1", "m-1")
    assert attempt.begun is not None


async def test_the_delivery_that_ended_a_run_hears_the_same_again(ask, due):
    await ask.publish(due)
    await ask.begin(due, nonce="n")
    await ask.finish(due, nonce="n")

    assert await ask.finish(due, nonce="n")
    assert not await ask.finish(due)
    assert not await ask.finish(due, nonce="other")


async def test_a_publisher_ends_what_nobody_began(ask, due):
    """The broker refused the message."""
    await ask.publish(due)

    assert not await ask.finish(due, nonce="n")
    assert await ask.finish(due, state=RunState.FAILED)


async def test_nobody_ends_or_gives_back_what_waits_in_the_broker(ask, due):
    await ask.publish(due)
    await ask.mark(due)

    assert not await ask.finish(due)
    assert not await ask.finish(due, nonce="n")
    assert not await ask.release(due)
    assert [attempt.state for attempt in await ask.history()] == [RunState.QUEUED]


async def test_a_publisher_does_not_give_back_what_a_worker_has(ask, due):
    await ask.publish(due)
    await ask.begin(due)

    assert not await ask.release(due)
    assert [attempt.state for attempt in await ask.history()] == [RunState.RUNNING]


async def test_a_publisher_that_asks_again_hears_won_only_until_it_has_sent(ask, due):
    assert (await ask.publish(due)).outcome is Outcome.WON
    assert (await ask.publish(due)).outcome is Outcome.WON

    await ask.mark(due)
    waiting = await ask.publish(due)
    assert (waiting.outcome, waiting.waits) == (Outcome.RUNNING, True)

    await ask.begin(due)
    begun = await ask.publish(due)
    assert (begun.outcome, begun.waits) == (Outcome.RUNNING, False)


async def test_a_look_at_a_backlog_takes_nothing_over(ask, due):
    """G3: nobody has died."""
    await ask.publish(due)
    await ask.mark(due)

    answer = await ask.take_over(due)

    assert (answer.outcome, answer.waits, answer.holder) == (Outcome.RUNNING, True, "web-1")
    assert (answer.attempt, answer.lease) == (1, timedelta(seconds=15))


async def test_a_queued_run_is_busy(ask, due):
    """G3"""
    await ask.publish(due)
    await ask.mark(due)

    (known,) = (await ask.register()).unfinished
    assert (known.slot, known.attempt, known.busy, known.holder) == (due, 1, True, "web-1")
    later = await ask.publish(due + MINUTE, "b")
    assert (later.outcome, later.blocker, later.waits) == (Outcome.OVERLAP, due, False)
    allowed = await ask.publish(due + MINUTE, "c", overlap=Overlap.ALLOW)
    assert allowed.outcome is Outcome.WON


async def test_a_queued_run_is_not_pruned(ask, due):
    await ask.publish(due)
    await ask.mark(due)

    assert await ask.prune(keep=0) == 0
    assert await ask.begin(due)


async def test_a_publisher_marks_only_what_it_still_has(ask, harness, due):
    await ask.publish(due)
    assert not await ask.mark(due, "b")
    # it froze, and nobody took over: the message is out all the same
    await harness.lapse(JOB, due)
    assert await ask.mark(due)
    assert not await ask.mark(due)

    await ask.begin(due)
    assert not await ask.mark(due)
    assert [attempt.state for attempt in await ask.history()] == [RunState.RUNNING]


async def test_a_run_that_ended_is_not_marked(ask, due):
    await ask.publish(due)
    await ask.begin(due, nonce="n")
    await ask.finish(due, nonce="n")

    assert not await ask.mark(due)
    assert not await ask.mark_retry(due, nonce="n")


async def test_a_task_that_retries_waits_for_the_message_of_its_retry(ask, due):
    await ask.publish(due)
    await ask.begin(due, nonce="n", holder="pod-1", message="m-1")
    (first,) = await ask.history()

    assert await ask.mark_retry(due, nonce="n", retry=1)

    (waiting,) = await ask.history()
    assert (waiting.state, waiting.ended) == (RunState.QUEUED, None)
    assert (waiting.worker, waiting.message, waiting.begun) == (None, "m-1", first.begun)
    assert not await ask.renew(due, holder="pod-1")
    assert not await ask.finish(due, nonce="n")
    assert (await ask.take_over(due)).waits


async def test_a_retry_is_begun_once_and_is_the_same_attempt(ask, due):
    """G12"""
    await ask.publish(due)
    await ask.begin(due, nonce="n", holder="pod-1", message="m-1")
    (first,) = await ask.history()
    await ask.mark_retry(due, nonce="n", retry=1)

    assert not await ask.begin(due, nonce="again", retry=0)
    assert await ask.begin(due, nonce="m", retry=1, holder="pod-2", message="m-2")
    assert not await ask.begin(due, nonce="again", retry=1)
    assert not await ask.begin(due, nonce="n", retry=0)

    (second,) = await ask.history()
    assert (second.attempt, second.fence, second.begun) == (1, first.fence, first.begun)
    assert (second.worker, second.message) == ("pod-2", "m-2")
    assert not await ask.finish(due, nonce="n")
    assert await ask.finish(due, nonce="m")


async def test_a_retry_that_is_faster_than_its_mark_begins(ask, due):
    await ask.publish(due)
    await ask.begin(due, nonce="n", holder="pod-1")

    assert await ask.begin(due, nonce="m", retry=1, holder="pod-2", message="m-2")

    assert not await ask.mark_retry(due, nonce="n", retry=1)
    assert not await ask.renew(due, holder="pod-1")
    assert await ask.renew(due, holder="pod-2")
    assert [attempt.message for attempt in await ask.history()] == ["m-2"]


async def test_only_who_runs_it_may_put_it_back_and_only_for_a_later_retry(ask, due):
    await ask.publish(due)
    assert not await ask.mark_retry(due, nonce="n", retry=1)
    await ask.begin(due, nonce="n", retry=2)

    assert not await ask.mark_retry(due, nonce="other", retry=3)
    assert not await ask.mark_retry(due, "b", nonce="n", retry=3)
    assert not await ask.mark_retry(due, nonce="n", retry=2)
    assert await ask.mark_retry(due, nonce="n", retry=3)


async def test_an_attempt_that_was_taken_over_begins_with_the_first_message(ask, harness, due):
    await ask.publish(due)
    await ask.begin(due, nonce="n", retry=2)
    await harness.lapse(JOB, due)
    await ask.take_over(due, "b")

    assert await ask.begin(due, "b", nonce="n2", retry=0)


async def test_begins_and_marks_are_each_judged_alone(ask, store, meet, due):
    jobs = ["one", "two", "three"]
    await meet(*jobs)
    await store.claim([tracked_claim_of(due, job=job) for job in jobs])

    answers = (
        await store.begin(
            [
                begin_of(due, nonce="n", job="one"),
                begin_of(due, token="b", job="two"),
                begin_of(due, nonce="m", job="one"),
                begin_of(due, nonce="n", job="one"),
                begin_of(due, nonce="n", job="three"),
                begin_of(due, job="unknown"),
            ]
        )
    ).answers

    assert answers == (True, False, False, True, True, False)
    states = {attempt.job: attempt.state for attempt in await ask.history(*jobs)}
    assert states == {
        "one": RunState.RUNNING,
        "two": RunState.CLAIMED,
        "three": RunState.RUNNING,
    }


async def test_a_batch_of_500_is_begun(store, meet, due):
    jobs = [f"job-{count}" for count in range(500)]
    await meet(*jobs)
    await store.claim([tracked_claim_of(due, job=job) for job in jobs])

    reply = await store.begin([begin_of(due, job=job) for job in jobs])

    assert reply.answers == (True,) * 500


@pytest.mark.parametrize("name", list(ODD.values()), ids=list(ODD))
async def test_workers_and_messages_have_any_names(ask, due, name):
    await ask.publish(due)
    assert await ask.begin(due, nonce=name, holder=name, message=name)

    assert await ask.renew(due, holder=name)
    assert await ask.finish(due, nonce=name)
    (attempt,) = await ask.history()
    assert (attempt.worker, attempt.message) == (name, name)
