"""The rules of tracked runs as pure functions: what the search does not look at."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from anarchon import rules, tracked
from anarchon.record import JobRecord, Run
from anarchon.run import Overlap, RunState
from anarchon.store import Begin, Claim, Finish, Mode, Outcome, Release, Renewal, Terms, Waiting

SLOT = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
NOW = SLOT + timedelta(minutes=1)
LEASE, HOUR = timedelta(seconds=15), timedelta(hours=1)
TICK = timedelta(microseconds=1)
TERMS = Terms(LEASE, Overlap.SKIP, 3, RunState.CLAIMED, start_within=HOUR)
EMPTY = JobRecord(floor=SLOT - HOUR)
FIRST = Claim("sync", SLOT, "a", Mode.SCHEDULED, "web-1", TERMS, 2 * HOUR)
LOOK = replace(FIRST, token="b", mode=Mode.TAKEOVER, instance="web-2")
BEGIN = Begin("sync", SLOT, "a", 0, "n", "pod-1", "m-1")
MARK = Renewal("sync", SLOT, "a", waiting=Waiting())
RETRY = Renewal("sync", SLOT, "a", waiting=Waiting("n", 1, timedelta(minutes=5)))


def _run(record: JobRecord) -> Run:
    return record.runs[SLOT]


@pytest.fixture
def claimed() -> JobRecord:
    return rules.claim(EMPTY, FIRST, NOW).record


@pytest.fixture
def queued(claimed: JobRecord) -> JobRecord:
    return rules.renew(claimed, MARK, NOW).record


@pytest.fixture
def begun(queued: JobRecord) -> JobRecord:
    return tracked.begin(queued, BEGIN, NOW).record


def test_a_run_may_be_begun_until_right_before_its_start_deadline(queued):
    assert tracked.begin(queued, BEGIN, SLOT + HOUR - TICK).answer
    assert not tracked.begin(queued, BEGIN, SLOT + HOUR).answer


def test_a_run_whose_start_deadline_is_over_is_late_before_it_is_claimed():
    assert rules.claim(EMPTY, FIRST, SLOT + HOUR - TICK).answer.outcome is Outcome.WON
    assert rules.claim(EMPTY, FIRST, SLOT + HOUR).answer.outcome is Outcome.LATE


def test_a_queued_run_is_busy_without_a_lease_until_its_start_deadline(queued):
    assert _run(queued).expires is None
    assert _run(queued).is_busy_at(SLOT + HOUR - TICK)
    assert not _run(queued).is_busy_at(SLOT + HOUR)


def test_a_look_at_a_backlog_hears_running_and_takes_nothing_over(queued):
    step = rules.claim(queued, LOOK, SLOT + HOUR - TICK)

    assert step.answer.outcome is Outcome.RUNNING
    assert step.record is queued


@pytest.mark.parametrize("mode", list(Mode))
def test_the_first_that_meets_an_overdue_run_ends_it_as_expired(queued, mode):
    step = rules.claim(queued, replace(LOOK, mode=mode), SLOT + HOUR)

    assert step.answer.outcome is Outcome.DONE
    assert _run(step.record).state is RunState.EXPIRED
    assert [(a.state, a.ended) for a in step.attempts] == [(RunState.EXPIRED, SLOT + HOUR)]


def test_a_newer_slot_ends_an_overdue_run_as_expired(queued):
    newer = replace(FIRST, slot=SLOT + HOUR, token="c")

    step = rules.claim(queued, newer, SLOT + HOUR)

    assert step.answer.outcome is Outcome.WON
    assert _run(step.record).state is RunState.EXPIRED


def test_a_newer_slot_hears_overlap_while_a_run_is_queued(queued):
    step = rules.claim(queued, replace(FIRST, slot=NOW, token="c"), NOW)

    assert (step.answer.outcome, step.answer.blocker) == (Outcome.OVERLAP, SLOT)


def test_a_beginning_ends_the_start_deadline(begun):
    """Its answer may be lost right before, and is asked for again right after."""
    assert _run(begun).deadline is None
    assert tracked.begin(begun, BEGIN, SLOT + 2 * HOUR).answer


def test_the_worker_renews_by_its_own_name_and_the_publisher_no_more(begun):
    renewal = Renewal("sync", SLOT, "a")

    assert not rules.renew(begun, renewal, NOW).answer
    assert not rules.renew(begun, replace(renewal, holder="pod-2"), NOW).answer
    assert rules.renew(begun, replace(renewal, holder="pod-1"), NOW).answer


def test_only_the_delivery_that_began_a_run_ends_it(begun):
    finish = Finish("sync", SLOT, "a", RunState.SUCCESS)

    assert not rules.finish(begun, finish, NOW).answer
    assert not rules.finish(begun, replace(finish, nonce="m"), NOW).answer
    ended = rules.finish(begun, replace(finish, nonce="n"), NOW)
    assert ended.answer
    assert rules.finish(ended.record, replace(finish, nonce="n"), NOW).answer
    assert not rules.finish(ended.record, finish, NOW).answer


def test_nobody_ends_or_gives_back_what_waits_in_the_broker(queued):
    assert not rules.finish(queued, Finish("sync", SLOT, "a", RunState.FAILED), NOW).answer
    assert not rules.release(queued, Release("sync", SLOT, "a"), NOW).answer


def test_a_publisher_does_not_give_back_what_a_worker_has(begun):
    assert not rules.release(begun, Release("sync", SLOT, "a"), NOW).answer


def test_a_publisher_that_claims_again_is_told_that_somebody_runs_it(begun):
    assert rules.claim(begun, FIRST, NOW).answer.outcome is Outcome.RUNNING


def test_a_retry_has_a_start_deadline_of_its_own(begun):
    step = rules.renew(begun, RETRY, NOW)

    assert step.answer
    run = _run(step.record)
    assert (run.state, run.retry, run.nonce) == (RunState.QUEUED, 1, None)
    assert run.deadline == NOW + timedelta(minutes=5) + HOUR


def test_a_retry_that_is_faster_than_its_mark_leaves_the_mark_refused(begun):
    faster = tracked.begin(begun, replace(BEGIN, retry=1, nonce="m"), NOW).record

    assert not rules.renew(faster, RETRY, NOW).answer


def test_an_earlier_message_does_not_begin_what_waits_for_a_retry(begun):
    waiting = rules.renew(begun, RETRY, NOW).record

    assert not tracked.begin(waiting, replace(BEGIN, nonce="m"), NOW).answer


def test_a_mark_needs_no_live_lease(claimed):
    """A publisher that froze and was not taken over has still published."""
    assert rules.renew(claimed, MARK, NOW + LEASE).answer


def test_a_mark_after_the_beginning_is_refused(claimed):
    begun = tracked.begin(claimed, BEGIN, NOW).record

    assert not rules.renew(begun, MARK, NOW).answer


def test_an_attempt_after_one_that_was_begun_has_its_time_anew(begun):
    """A worker may die long after the deadline of a run that it began in time."""
    later = NOW + 5 * HOUR

    step = rules.claim(begun, LOOK, later)

    assert (step.answer.outcome, step.answer.attempt) == (Outcome.WON, 2)
    run = _run(step.record)
    assert (run.state, run.deadline) == (RunState.CLAIMED, later + HOUR)
    assert (run.retry, run.nonce, run.holder) == (0, None, None)


def test_an_attempt_after_one_that_nobody_began_has_no_more_time(claimed):
    step = rules.claim(claimed, LOOK, NOW + LEASE)

    assert _run(step.record).deadline == SLOT + HOUR


def test_an_untracked_run_is_neither_begun_nor_marked():
    untracked = replace(FIRST, terms=replace(TERMS, start_within=None))
    record = rules.claim(EMPTY, untracked, NOW).record

    assert not tracked.begin(record, BEGIN, NOW).answer
    assert not tracked.begin(record, replace(BEGIN, retry=1), NOW).answer
    assert not rules.renew(record, MARK, NOW).answer


def test_the_history_shows_where_an_attempt_stands(claimed):
    marked = rules.renew(claimed, MARK, NOW)
    begun = tracked.begin(marked.record, BEGIN, NOW)
    waits = rules.renew(begun.record, RETRY, NOW)

    shown = [a for step in (marked, begun, waits) for a in step.attempts]
    assert [(a.state, a.attempt, a.ended) for a in shown] == [
        (RunState.QUEUED, 1, None),
        (RunState.RUNNING, 1, None),
        (RunState.QUEUED, 1, None),
    ]


def test_an_overdue_run_of_a_job_nobody_knows_any_more_ends_as_expired(queued):
    step = rules.forget("sync", queued, SLOT + timedelta(days=31))

    assert _run(step.record).state is RunState.EXPIRED
