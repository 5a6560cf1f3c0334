"""The runs this instance watches, to take them over when their lease lapses.

Who hears that somebody else runs a slot becomes its backup. A watched run is looked at
between one and two of the job's heartbeats after the last look: a claim that may only take
over, which travels with all others that are due for a look. So a run whose runner died is
taken over at the latest two heartbeats after its lease lapsed, and a fleet of backups asks
at moments of its own, not all at once.

A run that waits in a broker has no lease that could lapse. Once a worker begins it, it has
one, for one lease at least: so it is looked at only that much later, one lease and one to two
heartbeats after the last look. If it was begun right after that look, and its worker died at
once, that is still two heartbeats after its lease lapsed.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from anarchon.clock import Bell, Clock
from anarchon.job import Job

Look = Callable[[Job, datetime, bool], None]


@dataclass(frozen=True, slots=True)
class _Watched:
    job: Job
    slot: datetime
    was_seen: bool
    earliest: float
    latest: float


class Backups:
    """What is watched; ``look`` is called for what is due, and watches it again if need be."""

    def __init__(self, clock: Clock, look: Look) -> None:
        self._clock = clock
        self._look = look
        self._watched: dict[tuple[str, datetime], _Watched] = {}
        self._changed = Bell()
        self._wakes_at = float("inf")
        self._task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._watched)

    def start(self) -> None:
        """Start looking."""
        self._task = asyncio.create_task(self._run(), name="anarchon-backups")

    async def stop(self) -> None:
        """Look no more; what was watched is forgotten here."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._watched.clear()

    def watch(
        self,
        job: Job,
        slot: datetime,
        *,
        was_seen: bool = False,
        spare: timedelta = timedelta(0),
    ) -> None:
        """Look at a slot in one to two heartbeats, or when it is watched already, then.

        ``was_seen`` says that the store has told of a run at this slot; ``spare`` is for how
        long from now nothing can happen to it that needs us.
        """
        watched = self._watched.get((job.name, slot))
        if watched is not None:
            if was_seen and not watched.was_seen:
                self._watched[job.name, slot] = replace(watched, was_seen=True)
            return
        heartbeat = job.heartbeat.total_seconds()
        now = self._clock.monotonic() + spare.total_seconds()
        latest = now + heartbeat * random.uniform(1, 2)
        self._watched[job.name, slot] = _Watched(job, slot, was_seen, now + heartbeat, latest)
        if latest < self._wakes_at:
            self._changed.set()

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            self._wakes_at = min((w.latest for w in self._watched.values()), default=float("inf"))
            delay = min(self._wakes_at - self._clock.monotonic(), 60.0)
            await self._clock.wait(self._changed, delay)
            now = self._clock.monotonic()
            if now < self._wakes_at:
                continue
            # whatever may be looked at by now travels in the same call
            for key, watched in list(self._watched.items()):
                if watched.earliest <= now:
                    del self._watched[key]
                    self._look(watched.job, watched.slot, watched.was_seen)
