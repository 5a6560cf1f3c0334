"""The project that the schedulers publish for: its entries are all due at one moment, or spread.

Each message tells when it was handed to Celery's own publishing, and by which process.
"""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from celery import Celery, signals
from celery.schedules import crontab, schedule

from benchmarks.projects.spec import SPEC, moment_of

app = Celery("shop", broker=SPEC["broker"])
app.conf.update(timezone="UTC", result_expires=None, **SPEC["settings"])


@app.task(name="shop.note")
def note(number: int) -> None:
    """Stand for a task; nobody works here."""


@signals.before_task_publish.connect
def _stamp(headers: dict[str, Any], **_: object) -> None:
    headers.update(sent=time.time(), sender=os.getpid())


def _at_a_minute(number: int) -> dict[str, Any]:
    # an object of its own for each, as in the configurations of people
    return {"schedule": crontab(minute=str(datetime.fromtimestamp(moment_of(number), UTC).minute))}


def _each_minute(number: int) -> dict[str, Any]:
    """Return an entry of 60 s whose first slot is at its moment."""
    moment = datetime.fromtimestamp(moment_of(number), UTC)
    if SPEC["ours"]:
        from anarchon import Every

        return {"schedule": Every("60s", anchor=moment)}
    return {"schedule": schedule(60), "last_run_at": moment - timedelta(seconds=60)}


def _once(number: int) -> dict[str, Any]:
    from anarchon import At

    return {"schedule": At(datetime.fromtimestamp(moment_of(number), UTC))}


def _each_second(_: int) -> dict[str, Any]:
    return {"schedule": 1.0}


_ENTRIES = {
    "minute": _at_a_minute,
    "spread": _each_minute,
    "once": _once,
    "seconds": _each_second,
    "none": None,
}


def _entry(number: int) -> dict[str, Any]:
    make = _ENTRIES[SPEC["entries"]]
    assert make is not None
    entry = {"task": "shop.note", "args": [number], **make(number)}
    if SPEC["ours"]:
        entry["options"] = {"anarchon": SPEC["ours"]}
    return entry


if SPEC["entries"] != "none":
    app.conf.beat_schedule = {f"job-{n:06}": _entry(n) for n in range(SPEC["jobs"])}
