"""One heap of what is due here next.

The next slot of a job is armed before the current one is handed out, and derived from it,
never from the time it happens to be: a timer that wakes late, or a handler that fails,
cannot make a slot disappear. Two cases are different. What is too late to start by now is
jumped over, to the newest slot, and told as one ``missed``. When the clock went back, every
job is armed anew for the first slot from here, or it would be silent for the whole step;
the store answers ``done`` for what has run.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from anarchon.job import Job

#: A step back of less than this is an estimate that got better, not a clock that was set.
_STEP_BACK = timedelta(seconds=1)
#: Missed slots are counted no further: after a night of suspend it does not matter.
MOST_COUNTED = 20


@dataclass(frozen=True, slots=True)
class Due:
    """A slot whose moment has come; it may start until ``within`` after it.

    ``missed`` is how many older slots were jumped over on the way here, at most
    ``MOST_COUNTED`` of them counted. ``after`` is the slot that a polled one follows.
    """

    job: Job
    slot: datetime
    within: timedelta
    missed: int = 0
    after: datetime | None = None


class _Armed(NamedTuple):
    # what a heap compares again and again: as tuples, by the first two, never alike in both
    wake: datetime
    order: int
    due: Due
    following: datetime | None


#: Jobs whose schedule raised.
Broken = list[tuple[Job, Exception]]


def _jitter(job: Job, slot: datetime, following: datetime | None) -> timedelta:
    return job.jitter if following is None else min(job.jitter, (following - slot) / 10)


def longest_jitter(job: Job, slot: datetime) -> timedelta:
    """Return how long a slot's claim may be put off: never more than a tenth of the step."""
    return _jitter(job, slot, job.schedule.next_after(slot))


def allowed_lateness(job: Job, slot: datetime) -> timedelta:
    """Return how long after its slot a run may start: never past the next slot."""
    return _lateness(job, slot, job.schedule.next_after(slot))


def longest_lateness(job: Job, slot: datetime) -> timedelta:
    """Return how long after its slot any instance may still start a run: late, or caught up."""
    following = job.schedule.next_after(slot)
    caught_up = job.catch_up if following is None else min(job.catch_up, following - slot)
    return max(_lateness(job, slot, following), caught_up)


class JobTimers:
    """The next slot of every job, by the time to wake for it."""

    def __init__(self) -> None:
        self._heap: list[_Armed] = []
        self._order = itertools.count()
        self._latest: datetime | None = None

    def __len__(self) -> int:
        return len(self._heap)

    def start(self, jobs: Iterable[Job], now: datetime) -> Broken:
        """Arm the first slot of each job after this moment; return the jobs that fell out."""
        broken: Broken = []
        for job in jobs:
            try:
                self._arm(job, job.schedule.next_after(now))
            except Exception as error:
                broken.append((job, error))
        return broken

    def wakes_at(self) -> datetime | None:
        """Return when something is due next."""
        return self._heap[0].wake if self._heap else None

    def due(self, now: datetime) -> tuple[list[Due], Broken]:
        """Take what is due, each job's next slot armed already; and the jobs that fell out.

        A job falls out when its schedule raises, which the schedules here never do.
        """
        ready: list[Due] = []
        broken: Broken = []
        if self._latest is not None and self._latest - now > _STEP_BACK:
            broken += self._arm_anew(now)
        self._latest = now
        while self._heap and self._heap[0].wake <= now:
            armed = heapq.heappop(self._heap)
            try:
                self._arm_next(armed, now)
            except Exception as error:
                broken.append((armed.due.job, error))
            ready.append(armed.due)
        return ready, broken

    def _arm_next(self, armed: _Armed, now: datetime) -> None:
        job, following = armed.due.job, armed.following
        if following is None:
            return
        newest = None
        # seldom past: a schedule is asked only then what came after it
        if following < now and now - following > allowed_lateness(job, following):
            newest = job.schedule.latest_at(now)
        if newest is None or newest <= following:
            self._arm(job, following)
        else:
            self._arm(job, newest, missed=_count(job, following, newest))

    def _arm(self, job: Job, slot: datetime | None, missed: int = 0) -> None:
        if slot is None:
            return
        following = job.schedule.next_after(slot)
        due = Due(job, slot, _lateness(job, slot, following), missed)
        wake = slot + _jitter(job, slot, following) * random.random()
        heapq.heappush(self._heap, _Armed(wake, next(self._order), due, following))

    def _arm_anew(self, now: datetime) -> Broken:
        armed, self._heap = self._heap, []
        broken: Broken = []
        for one in armed:
            try:
                first = one.due.job.schedule.next_after(now)
                self._arm(one.due.job, min(first, one.due.slot) if first else one.due.slot)
            except Exception as error:
                broken.append((one.due.job, error))
        return broken


def _lateness(job: Job, slot: datetime, following: datetime | None) -> timedelta:
    return job.max_late if following is None else min(job.max_late, following - slot)


def _count(job: Job, slot: datetime | None, newest: datetime) -> int:
    count = 0
    while slot is not None and slot < newest and count < MOST_COUNTED:
        count += 1
        slot = job.schedule.next_after(slot)
    return count
