"""`anarchon-beat history`: who ran what, as the store has it."""

from __future__ import annotations

import asyncio
import difflib
from datetime import datetime

from anarchon import AnarchonError, Attempt, Scheduler, SystemClock
from anarchon.clock import rfc3339
from anarchon_beat.mistakes import Mistake, code_of
from anarchon_beat.streams import say
from anarchon_beat.tables import print_json, print_table
from anarchon_beat.times import absolute, relative, span

VERSION = "anarchon.history/1"

_COLUMNS = ("SLOT", "AGO", "JOB", "ATTEMPT", "STATE", "INSTANCE", "STARTED", "TOOK", "DETAIL")
_STYLES = {
    "success": "green",
    "published": "green",
    "failed": "red",
    "lost": "red",
    "interrupted": "yellow",
    "skipped": "dim",
}


def show(scheduler: Scheduler, jobs: tuple[str, ...], limit: int, *, as_json: bool) -> None:
    """Print the newest attempts of the scheduler's jobs, or of some, newest slot first.

    Jobs that are declared no more may be named as well.
    """
    attempts = _attempts(scheduler, jobs, limit)
    if not attempts:
        _refuse_unknown(scheduler, jobs)
    if as_json:
        print_json(
            VERSION,
            namespace=scheduler.namespace,
            store=scheduler.store,
            attempts=[_as_json(attempt) for attempt in attempts],
        )
    elif not attempts:
        say("nothing has run yet")
    else:
        now = SystemClock().wall()
        print_table(_COLUMNS, (_row(attempt, now) for attempt in attempts), _STYLES)


def _attempts(scheduler: Scheduler, jobs: tuple[str, ...], limit: int) -> tuple[Attempt, ...]:
    try:
        return asyncio.run(scheduler.history(jobs or None, limit=limit))
    except AnarchonError as error:
        raise Mistake(str(error), code_of(error)) from error


def _refuse_unknown(scheduler: Scheduler, jobs: tuple[str, ...]) -> None:
    known = [job.name for job in scheduler.jobs]
    for name in jobs:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"use one of {', '.join(known)}"
            raise Mistake(f"no job {name!r} is declared, and none has a history; {hint}")


def _as_json(attempt: Attempt) -> dict[str, object]:
    return {
        "job": attempt.job,
        "slot": rfc3339(attempt.slot),
        "attempt": attempt.attempt,
        "state": attempt.state.value,
        "instance": attempt.instance,
        "fence": attempt.fence,
        "started": rfc3339(attempt.started),
        "ended": rfc3339(attempt.ended) if attempt.ended is not None else None,
        "detail": attempt.detail,
    }


def _row(attempt: Attempt, now: datetime) -> tuple[str, ...]:
    return (
        absolute(attempt.slot),
        relative(attempt.slot, now),
        attempt.job,
        str(attempt.attempt) if attempt.attempt else "-",
        attempt.state.value,
        attempt.instance,
        f"+{span(attempt.started - attempt.slot)}",
        span(attempt.ended - attempt.started) if attempt.ended is not None else "-",
        attempt.detail or "",
    )
