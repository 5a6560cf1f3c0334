"""`anarchon-beat next`: what will be due, and when. Asks no store."""

from __future__ import annotations

import heapq
from datetime import datetime

from anarchon import ConfigurationError, Job, Scheduler, SystemClock
from anarchon.clock import rfc3339
from anarchon_beat.mistakes import Mistake
from anarchon_beat.tables import print_json, print_table
from anarchon_beat.times import absolute, relative

VERSION = "anarchon.next/1"


def show(scheduler: Scheduler, jobs: tuple[str, ...], count: int, *, as_json: bool) -> None:
    """Print the next slots of the schedule, or of some jobs, in the order they are due."""
    now = SystemClock().wall()
    slots = _slots(scheduler, jobs, count)
    if as_json:
        print_json(
            VERSION,
            namespace=scheduler.namespace,
            now=rfc3339(now),
            slots=[
                {"job": job.name, "slot": rfc3339(slot), "schedule": str(job.schedule)}
                for slot, job in slots
            ],
        )
    elif not slots:
        print("no slot is to come")
    else:
        print_table(
            ("NEXT", "LEFT", "JOB", "SCHEDULE"),
            (
                (absolute(slot), relative(slot, now), job.name, str(job.schedule))
                for slot, job in slots
            ),
            {},
        )


def _slots(scheduler: Scheduler, jobs: tuple[str, ...], count: int) -> list[tuple[datetime, Job]]:
    known = {job.name: job for job in scheduler.jobs}
    names = jobs or tuple(known)
    try:
        slots = [
            (slot, name)
            for name in dict.fromkeys(names)
            for slot in scheduler.next_slots(name, count)
        ]
    except ConfigurationError as error:
        raise Mistake(str(error)) from error
    return [(slot, known[name]) for slot, name in heapq.nsmallest(count, slots)]
