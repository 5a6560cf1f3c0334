"""Who may begin a tracked run, and who not: one small test for each protection."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from anarchon import rules, tracked
from anarchon.record import JobRecord, Run
from anarchon.run import Overlap, RunState
from anarchon.store import (
    Begin,
    Claim,
    Finish,
    Mode,
    Outcome,
    Renewal,
    Terms,
    Waiting,
)

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
SLOT = NOW - timedelta(minutes=1)
LEASE = timedelta(seconds=15)
TICK = timedelta(microseconds=1)
DEADLINE = SLOT + timedelta(hours=1)
TERMS = Terms(LEASE, Overlap.SKIP, 3, RunState.CLAIMED, start_within=timedelta(hours=1))
CLAIMED = Run(
    slot=SLOT,
    state=RunState.CLAIMED,
    terms=TERMS,
    attempt=1,
    lapses=0,
    token="a",
    expires=NOW + LEASE,
    instance="web-1",
    fence=7,
    started=SLOT,
    deadline=DEADLINE,
)
QUEUED = replace(CLAIMED, state=RunState.QUEUED, expires=None)
BEGUN = replace(CLAIMED, state=RunState.RUNNING, deadline=None, nonce="first", holder="pod-1")


def _record(run: Run) -> JobRecord:
    return JobRecord(floor=NOW - timedelta(days=1), runs={SLOT: run})


def _begins(
    run: Run, *, token: str = "a", retry: int = 0, nonce: str = "second", at: datetime = NOW
) -> bool:
    return tracked.begin(
        _record(run), Begin("sync", SLOT, token, retry, nonce, "pod-2", "m"), at
    ).answer


@pytest.mark.parametrize("run", [CLAIMED, QUEUED], ids=lambda run: run.state)
def test_a_run_nobody_began_is_begun_by_a_delivery_of_its_token(run: Run):
    step = tracked.begin(_record(run), Begin("sync", SLOT, "a", 0, "second", "pod-2", "m"), NOW)

    begun = step.record.runs[SLOT]
    assert step.answer
    assert (begun.state, begun.nonce, begun.holder) == (RunState.RUNNING, "second", "pod-2")
    assert begun.expires == NOW + LEASE


def test_a_message_of_another_token_begins_nothing():
    """G12: its attempt was taken over from."""
    assert not _begins(QUEUED, token="b")


def test_a_run_that_ended_is_begun_by_nobody_not_even_again():
    """G12."""
    ended = replace(BEGUN, state=RunState.SUCCESS, expires=None)

    assert not _begins(ended, nonce="first")
    assert not _begins(ended, retry=1)


def test_a_delivery_that_asks_again_hears_the_same():
    assert _begins(BEGUN, nonce="first")


def test_a_second_delivery_of_a_message_begins_nothing():
    """G12: the broker sent it twice."""
    assert not _begins(BEGUN)


def test_the_message_of_a_retry_begins_what_the_one_before_it_gave_up():
    assert _begins(BEGUN, retry=1)


def test_the_message_of_an_older_retry_begins_nothing():
    """G12."""
    assert not _begins(replace(QUEUED, retry=2), retry=1)


def test_a_run_may_be_begun_right_up_to_its_start_deadline():
    assert _begins(QUEUED, at=DEADLINE - TICK)
    assert not _begins(QUEUED, at=DEADLINE)


def test_only_the_worker_that_began_a_run_keeps_it():
    """G4: the instance that published it holds it no longer."""
    record = _record(BEGUN)

    assert rules.renew(record, Renewal("sync", SLOT, "a", holder="pod-1"), NOW).answer
    assert not rules.renew(record, Renewal("sync", SLOT, "a", holder="pod-2"), NOW).answer
    assert not rules.renew(record, Renewal("sync", SLOT, "a"), NOW).answer


def test_only_the_delivery_that_began_a_run_ends_it():
    """G4."""
    record, end = _record(BEGUN), Finish("sync", SLOT, "a", RunState.SUCCESS, nonce="first")

    assert not rules.finish(record, replace(end, nonce="second"), NOW).answer
    assert not rules.finish(record, replace(end, nonce=None), NOW).answer
    assert rules.finish(record, end, NOW).answer


def test_a_queued_run_is_busy_until_its_start_deadline_and_has_expired_then():
    """G3: a backlog is not a crash."""
    look = Claim("sync", SLOT, "b", Mode.TAKEOVER, "web-2", TERMS, timedelta(minutes=5))

    assert rules.claim(_record(QUEUED), look, DEADLINE - TICK).answer.outcome is Outcome.RUNNING
    late = rules.claim(_record(QUEUED), look, DEADLINE)
    assert late.answer.outcome is Outcome.DONE
    assert late.record.runs[SLOT].state is RunState.EXPIRED


def test_a_mark_of_who_published_is_refused_when_a_worker_was_faster():
    sent = Renewal("sync", SLOT, "a", waiting=Waiting())

    assert rules.renew(_record(CLAIMED), sent, NOW).record.runs[SLOT].state is RunState.QUEUED
    assert not rules.renew(_record(BEGUN), sent, NOW).answer


def test_a_task_that_retries_waits_for_a_later_retry_only():
    def waits(retry: int, nonce: str) -> bool:
        mark = Renewal("sync", SLOT, "a", "pod-1", Waiting(nonce, retry))
        return rules.renew(_record(replace(BEGUN, retry=1)), mark, NOW).answer

    assert waits(2, "first")
    assert not waits(1, "first")
    assert not waits(2, "second")
