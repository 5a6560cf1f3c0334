"""`anarchon-beat history`: who ran what, as the store has it."""

from __future__ import annotations

import asyncio
import difflib
from datetime import datetime

from anarchon import AnarchonError, Attempt, Scheduler, SystemClock
from anarchon.clock import rfc3339
from anarchon_beat.config import Loaded
from anarchon_beat.mistakes import Mistake
from anarchon_beat.origin import mistake_of
from anarchon_beat.streams import say
from anarchon_beat.tables import print_json, print_table
from anarchon_beat.times import absolute, relative, span

VERSION = "anarchon.history/1"

_COLUMNS = ("SLOT", "AGO", "JOB", "ATTEMPT", "STATE", "INSTANCE", "STARTED", "TOOK", "DETAIL")
#: Only where a worker has begun any of it: before ``TOOK``.
_OF_WORKERS = ("BEGUN", "WORKER")
_STYLES = {
    "success": "green",
    "published": "green",
    "failed": "red",
    "lost": "red",
    "interrupted": "yellow",
    "expired": "red",
    "skipped": "dim",
}


def show(loaded: Loaded, jobs: tuple[str, ...], limit: int, *, as_json: bool) -> None:
    """Print the newest attempts of the scheduler's jobs, or of some, newest slot first.

    Jobs that are declared no more may be named as well.
    """
    scheduler = loaded.scheduler
    attempts = _attempts(loaded, jobs, limit)
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
        tracked = any(attempt.begun is not None for attempt in attempts)
        print_table(_columns(tracked), (_row(a, now, tracked) for a in attempts), _STYLES)


def _attempts(loaded: Loaded, jobs: tuple[str, ...], limit: int) -> tuple[Attempt, ...]:
    try:
        return asyncio.run(loaded.scheduler.history(jobs or None, limit=limit))
    except AnarchonError as error:
        raise mistake_of(error, loaded.store_set_by) from error


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
        "worker": attempt.worker,
        "message": attempt.message,
        "begun": rfc3339(attempt.begun) if attempt.begun is not None else None,
    }


def _columns(tracked: bool) -> tuple[str, ...]:
    return (*_COLUMNS[:-2], *_OF_WORKERS, *_COLUMNS[-2:]) if tracked else _COLUMNS


def _row(attempt: Attempt, now: datetime, tracked: bool) -> tuple[str, ...]:
    # what waits in a broker is no part of the work
    worked_from = attempt.begun if attempt.begun is not None else attempt.started
    return (
        absolute(attempt.slot),
        relative(attempt.slot, now),
        attempt.job,
        str(attempt.attempt) if attempt.attempt else "-",
        attempt.state.value,
        attempt.instance,
        f"+{span(attempt.started - attempt.slot)}",
        *(_of_worker(attempt) if tracked else ()),
        span(attempt.ended - worked_from) if attempt.ended is not None else "-",
        # as of a run that is not tracked, which has nothing else to tell
        attempt.detail or attempt.message or "",
    )


def _of_worker(attempt: Attempt) -> tuple[str, str]:
    if attempt.begun is None:
        return "-", "-"
    return f"+{span(attempt.begun - attempt.slot)}", attempt.worker or "-"
