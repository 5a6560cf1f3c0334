"""The rows of the tables and the values they stand for."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from anarchon.clock import MILLISECOND, from_millis, to_millis
from anarchon.record import JobRecord, Run, Seen
from anarchon.run import Attempt, Overlap, RunState
from anarchon.store import Terms

Row = tuple[Any, ...]

RUN = (
    "job, slot, state, lease, overlap, max_attempts, begins_as, start_within, attempt, lapses,"
    " token, expires, instance, fence, started, spent, deadline, retry, nonce, holder, message,"
    " begun"
)
ATTEMPT = (
    "job, slot, attempt, state, instance, fence, started, ended, detail, worker, message, begun"
)
FINGERPRINT = "job, fingerprint, first_seen, last_seen"

#: An attempt that is there is only ever taken further.
ATTEMPT_GOES_ON = (
    "on conflict (job, slot, attempt) do update"
    " set state = excluded.state, ended = excluded.ended, detail = excluded.detail,"
    " worker = excluded.worker, message = excluded.message, begun = excluded.begun"
)


def row_of_record(record: JobRecord) -> Row:
    """Return floor, newest and fence."""
    return to_millis(record.floor), to_millis(record.newest), record.fence


def row_of_seen(seen: Seen) -> Row:
    """Return what comes after job and fingerprint."""
    return to_millis(seen.first), to_millis(seen.last)


def run_of(row: Row) -> Run:
    _, slot, state, lease, overlap, max_attempts, begins_as, start_within = row[:8]
    attempt, lapses, token, expires, instance, fence, started, spent = row[8:16]
    deadline, retry, nonce, holder, message, begun = row[16:]
    return Run(
        slot=from_millis(slot),
        state=RunState(state),
        terms=Terms(
            lease * MILLISECOND,
            Overlap(overlap),
            max_attempts,
            begins_as=RunState(begins_as),
            start_within=None if start_within is None else start_within * MILLISECOND,
        ),
        attempt=attempt,
        lapses=lapses,
        token=token,
        expires=_moment(expires),
        instance=instance,
        fence=fence,
        started=from_millis(started),
        spent=() if spent == "[]" else tuple(json.loads(spent)),
        deadline=_moment(deadline),
        retry=retry,
        nonce=nonce,
        holder=holder,
        message=message,
        begun=_moment(begun),
    )


def row_of_run(run: Run) -> Row:
    """Return what comes after the job."""
    within = run.terms.start_within
    return (
        to_millis(run.slot),
        run.state.value,
        run.terms.lease // MILLISECOND,
        run.terms.overlap.value,
        run.terms.max_attempts,
        run.terms.begins_as.value,
        None if within is None else within // MILLISECOND,
        run.attempt,
        run.lapses,
        run.token,
        _millis(run.expires),
        run.instance,
        run.fence,
        to_millis(run.started),
        json.dumps(run.spent) if run.spent else "[]",
        _millis(run.deadline),
        run.retry,
        run.nonce,
        run.holder,
        run.message,
        _millis(run.begun),
    )


def attempt_of(name: str, row: Row) -> Attempt:
    _, slot, attempt, state, instance, fence, started, ended, detail, worker, message, begun = row
    return Attempt(
        name,
        from_millis(slot),
        attempt,
        RunState(state),
        instance,
        fence,
        from_millis(started),
        _moment(ended),
        detail,
        worker,
        message,
        _moment(begun),
    )


def row_of_attempt(attempt: Attempt) -> Row:
    """Return what comes after the job."""
    return (
        to_millis(attempt.slot),
        attempt.attempt,
        attempt.state.value,
        attempt.instance,
        attempt.fence,
        to_millis(attempt.started),
        _millis(attempt.ended),
        attempt.detail,
        attempt.worker,
        attempt.message,
        _millis(attempt.begun),
    )


def _moment(millis: int | None) -> datetime | None:
    return None if millis is None else from_millis(millis)


def _millis(moment: datetime | None) -> int | None:
    return None if moment is None else to_millis(moment)
