"""What the scripts answer, as the port's values; each reply comes without its time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from anarchon.clock import MILLISECOND, from_millis
from anarchon.run import Attempt, RunState
from anarchon.store import ClaimAnswer, KnownJob, Outcome, Unfinished

# looked up far more often than the enumerations can be asked
_OUTCOMES = {str(outcome): outcome for outcome in Outcome}
_STATES = {str(state): state for state in RunState}


def claim_answer(reply: list[Any]) -> ClaimAnswer:
    if len(reply) == 1:
        return ClaimAnswer(_OUTCOMES[reply[0]])
    outcome, attempt, fence, lease, holder, blocker, waits, start_by = reply
    return ClaimAnswer(
        _OUTCOMES[outcome],
        attempt,
        fence,
        None if lease is None else lease * MILLISECOND,
        holder,
        _moment(blocker),
        bool(waits),
        _moment(start_by),
    )


def yes_or_no(reply: list[Any]) -> bool:
    return bool(reply[0])


def count(reply: list[Any]) -> int:
    return int(reply[0])


def known_job(reply: list[Any]) -> KnownJob:
    first_seen, newest, others, unfinished = reply
    runs = [
        Unfinished(from_millis(int(slot)), attempt, bool(busy), holder)
        for slot, attempt, busy, holder in _cut(unfinished, 4)
    ]
    return KnownJob(
        from_millis(first_seen),
        from_millis(int(newest)),
        tuple(sorted((name, from_millis(last)) for name, last in _cut(others, 2))),
        tuple(sorted(runs, key=lambda run: run.slot)),
    )


def rows(reply: list[Any]) -> list[Any]:
    return reply


def attempt(job: str, row: list[Any]) -> Attempt:
    slot, number, state, instance, fence, started, ended, detail, worker, message, begun = row
    return Attempt(
        job,
        from_millis(int(slot)),
        number,
        _STATES[state],
        instance,
        fence,
        from_millis(started),
        _moment(ended),
        detail,
        worker,
        message,
        _moment(begun),
    )


def _moment(millis: int | str | None) -> datetime | None:
    return None if millis is None else from_millis(int(millis))


def _cut(flat: list[Any], width: int) -> Iterator[list[Any]]:
    for at in range(0, len(flat), width):
        yield flat[at : at + width]
