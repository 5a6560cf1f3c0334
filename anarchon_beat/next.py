"""`anarchon-beat next`: what will be due, and when. Asks no store."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from datetime import datetime
from itertools import islice

from anarchon import ConfigurationError, Job, Polled, Schedule, Scheduler, SystemClock
from anarchon.clock import rfc3339
from anarchon_beat.mistakes import Mistake
from anarchon_beat.streams import say
from anarchon_beat.tables import print_json, print_table
from anarchon_beat.times import absolute, relative

VERSION = "anarchon.next/1"


def show(scheduler: Scheduler, jobs: tuple[str, ...], count: int, *, as_json: bool) -> None:
    """Print the next slots of the schedule, or of some jobs, in the order they are due."""
    now = SystemClock().wall()
    slots = _slots(scheduler, jobs, count)
    asked = [job for job in scheduler.jobs if isinstance(job.schedule, Polled)]
    if jobs:
        asked = [job for job in asked if job.name in jobs]
    if as_json:
        print_json(
            VERSION,
            namespace=scheduler.namespace,
            now=rfc3339(now),
            slots=[
                {"job": job.name, "slot": rfc3339(slot), "schedule": str(job.schedule)}
                for slot, job in slots
            ],
            asked=[{"job": job.name, "schedule": str(job.schedule)} for job in asked],
        )
        return
    if slots:
        print_table(
            ("NEXT", "LEFT", "JOB", "SCHEDULE"),
            (
                (absolute(slot), relative(slot, now), job.name, str(job.schedule))
                for slot, job in slots
            ),
            {},
        )
    elif not asked:
        say("no slot is to come")
    for job in asked:
        say(f"{job.name} is due when its schedule says so ({job.schedule})")


def _slots(scheduler: Scheduler, jobs: tuple[str, ...], count: int) -> list[tuple[datetime, Job]]:
    known = {job.name: job for job in scheduler.jobs}
    try:
        # each job is asked for as many slots as are shown of it, and for one more
        coming = [
            _coming(name, slot, known[name].schedule)
            for name in dict.fromkeys(jobs or known)
            for slot in scheduler.next_slots(name)
        ]
    except ConfigurationError as error:
        raise Mistake(str(error)) from error
    return [(slot, known[name]) for slot, name in islice(heapq.merge(*coming), count)]


def _coming(name: str, first: datetime, schedule: Schedule) -> Iterator[tuple[datetime, str]]:
    slot: datetime | None = first
    while slot is not None:
        yield slot, name
        slot = schedule.next_after(slot)
