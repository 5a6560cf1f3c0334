"""The rows of the tables and the values they stand for."""

from __future__ import annotations

import json
from typing import Any

from anarchon.clock import MILLISECOND, from_millis, to_millis
from anarchon.rules import Run
from anarchon.run import Attempt, Overlap, RunState
from anarchon.store import Terms

Row = tuple[Any, ...]

RUN = (
    "job, slot, state, lease, overlap, max_attempts, begins_as, attempt, lapses, token,"
    " expires, instance, fence, started, spent"
)
ATTEMPT = "job, slot, attempt, state, instance, fence, started, ended, detail"


def run_of(row: Row) -> Run:
    _, slot, state, lease, overlap, max_attempts, begins_as = row[:7]
    attempt, lapses, token, expires, instance, fence, started, spent = row[7:]
    return Run(
        slot=from_millis(slot),
        state=RunState(state),
        terms=Terms(
            lease * MILLISECOND, Overlap(overlap), max_attempts, begins_as=RunState(begins_as)
        ),
        attempt=attempt,
        lapses=lapses,
        token=token,
        expires=None if expires is None else from_millis(expires),
        instance=instance,
        fence=fence,
        started=from_millis(started),
        spent=() if spent == "[]" else tuple(json.loads(spent)),
    )


def row_of_run(job: int, run: Run) -> Row:
    return (
        job,
        to_millis(run.slot),
        run.state.value,
        run.terms.lease // MILLISECOND,
        run.terms.overlap.value,
        run.terms.max_attempts,
        run.terms.begins_as.value,
        run.attempt,
        run.lapses,
        run.token,
        None if run.expires is None else to_millis(run.expires),
        run.instance,
        run.fence,
        to_millis(run.started),
        json.dumps(run.spent) if run.spent else "[]",
    )


def attempt_of(name: str, row: Row) -> Attempt:
    _, slot, attempt, state, instance, fence, started, ended, detail = row
    return Attempt(
        name,
        from_millis(slot),
        attempt,
        RunState(state),
        instance,
        fence,
        from_millis(started),
        None if ended is None else from_millis(ended),
        detail,
    )


def row_of_attempt(job: int, attempt: Attempt) -> Row:
    return (
        job,
        to_millis(attempt.slot),
        attempt.attempt,
        attempt.state.value,
        attempt.instance,
        attempt.fence,
        to_millis(attempt.started),
        None if attempt.ended is None else to_millis(attempt.ended),
        attempt.detail,
    )
