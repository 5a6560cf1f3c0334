"""The runs this instance watches, to take them over when their lease lapses.

Who hears that somebody else runs a slot becomes its backup. A watched run is looked at
between one and two of the job's heartbeats after the last look: a claim that may only take
over, which travels with all others that are due for a look. So a run whose runner died is
taken over at the latest two heartbeats after its lease lapsed, and a fleet of backups asks
at moments of its own, not all at once.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from anarchon.clock import Clock
from anarchon.job import Job

Look = Callable[[Job, datetime], None]


@dataclass(frozen=True, slots=True)
class _Watched:
    job: Job
    slot: datetime
    earliest: float
    latest: float


class Backups:
    """What is watched; ``look`` is called for what is due, and watches it again if need be."""

    def __init__(self, clock: Clock, look: Look) -> None:
        self._clock = clock
        self._look = look
        self._watched: dict[tuple[str, datetime], _Watched] = {}
        self._changed = asyncio.Event()
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

    def watch(self, job: Job, slot: datetime) -> None:
        """Look at a slot in one to two heartbeats; does nothing if it is watched already."""
        if (job.name, slot) in self._watched:
            return
        heartbeat = job.heartbeat.total_seconds()
        now = self._clock.monotonic()
        latest = now + heartbeat * random.uniform(1, 2)
        self._watched[job.name, slot] = _Watched(job, slot, now + heartbeat, latest)
        if latest < self._wakes_at:
            self._changed.set()

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            self._wakes_at = min((w.latest for w in self._watched.values()), default=float("inf"))
            delay = min(self._wakes_at - self._clock.monotonic(), 60.0)
            await self._clock.wait(self._changed, max(delay, 0.0))
            now = self._clock.monotonic()
            if now < self._wakes_at:
                continue
            # whatever may be looked at by now travels in the same call
            for key, watched in list(self._watched.items()):
                if watched.earliest <= now:
                    del self._watched[key]
                    self._look(watched.job, watched.slot)
