"""The store in memory, seen from behind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta

from anarchon.backends.memory import MemoryBackend, MemoryStore
from anarchon.clock import SystemClock
from anarchon.rules import JobRecord
from tests.contract.harness import NAMESPACE, Feature


@asynccontextmanager
async def open_harness(name: str) -> AsyncIterator[MemoryHarness]:
    yield MemoryHarness()


class MemoryHarness:
    features: frozenset[Feature] = frozenset()

    def __init__(self, now: Callable[[], datetime] | None = None) -> None:
        self._now = now if now is not None else SystemClock().wall
        self._backend = MemoryBackend(self._now)

    def connect(self, namespace: str = NAMESPACE) -> MemoryStore:
        return self._backend.connect(namespace)

    async def wipe(self) -> None:
        self._backend = MemoryBackend(self._now)

    @property
    def _records(self) -> dict[str, JobRecord]:
        return self._backend._namespaces[NAMESPACE].records

    async def lapse(self, job: str, slot: datetime) -> None:
        record = self._records[job]
        past = self._now() - timedelta(seconds=1)
        lapsed = replace(record.runs[slot], expires=past)
        self._records[job] = replace(record, runs={**record.runs, slot: lapsed})

    async def lower_floor(self, jobs: Sequence[str], floor: datetime) -> None:
        for job in jobs:
            self._records[job] = replace(self._records[job], floor=floor)

    async def raise_fence(self, job: str, fence: int) -> None:
        self._records[job] = replace(self._records[job], fence=fence)

    async def age_fingerprint(self, job: str, fingerprint: str, by: timedelta) -> None:
        record = self._records[job]
        seen = record.seen[fingerprint]
        aged = replace(seen, last=seen.last - by)
        self._records[job] = replace(record, seen={**record.seen, fingerprint: aged})

    async def stamp_newer_version(self) -> None:
        raise NotImplementedError

    def unfinished(self) -> list[tuple[str, datetime, str]]:
        """Name what holds or held a lease: job, slot and token."""
        return [
            (job, run.slot, run.token)
            for job, record in sorted(self._records.items())
            for run in record.runs.values()
            if run.token is not None and not run.state.has_ended
        ]

    def has_fingerprint(self, job: str, fingerprint: str) -> bool:
        return fingerprint in self._records[job].seen

    async def leftovers(self) -> Sequence[str]:
        return ()
