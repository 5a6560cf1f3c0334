"""The store in memory, seen from behind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TypeVar

from anarchon.backends.memory import MemoryBackend, MemoryStore
from anarchon.clock import SystemClock
from anarchon.record import JobRecord, Run
from anarchon.run import Attempt
from anarchon_contract.leases.harness import NAMESPACE, Feature

Snapshot = tuple[
    dict[str, JobRecord],
    dict[str, dict[datetime, Run]],
    dict[str, dict[tuple[datetime, int], Attempt]],
]
K = TypeVar("K")
V = TypeVar("V")


def _copied(kept: dict[str, dict[K, V]]) -> dict[str, dict[K, V]]:
    return {job: dict(of_job) for job, of_job in kept.items()}


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

    async def empty(self) -> None:
        for space in self._backend._namespaces.values():
            space.records.clear()
            space.ended.clear()
            space.attempts.clear()

    @property
    def _records(self) -> dict[str, JobRecord]:
        return self.records()

    def records(self, namespace: str = NAMESPACE) -> dict[str, JobRecord]:
        """The records themselves, not a copy, with the runs that have not ended."""
        return self._backend._namespaces[namespace].records

    def record(self, job: str, namespace: str = NAMESPACE) -> JobRecord | None:
        """Return the record of a job with all its runs."""
        space = self._backend._namespaces[namespace]
        record = space.records.get(job)
        if record is None:
            return None
        return replace(record, runs={**record.runs, **space.ended.get(job, {})})

    def snapshot(self, namespace: str) -> Snapshot:
        """Remember a namespace; its values are frozen, so this costs next to nothing."""
        space = self._backend._namespaces[namespace]
        return dict(space.records), _copied(space.ended), _copied(space.attempts)

    def go_back(self, namespace: str, snapshot: Snapshot) -> None:
        """Make a namespace what it was."""
        space = self._backend._namespaces[namespace]
        records, ended, attempts = snapshot
        space.records = dict(records)
        space.ended, space.attempts = _copied(ended), _copied(attempts)

    async def lapse(self, job: str, slot: datetime) -> None:
        record = self._records[job]
        past = self._now() - timedelta(seconds=1)
        lapsed = replace(record.runs[slot], expires=past)
        self._records[job] = replace(record, runs={**record.runs, slot: lapsed})

    async def lower_floor(self, jobs: Sequence[str], floor: datetime) -> None:
        for job in jobs:
            self._records[job] = replace(self._records[job], floor=floor, newest=floor)

    async def raise_fence(self, job: str, fence: int) -> None:
        self._records[job] = replace(self._records[job], fence=fence)

    async def age_fingerprint(self, job: str, fingerprint: str, by: timedelta) -> None:
        record = self._records[job]
        seen = record.seen[fingerprint]
        aged = replace(seen, last=seen.last - by)
        self._records[job] = replace(record, seen={**record.seen, fingerprint: aged})

    async def stamp_newer_version(self) -> None:
        raise NotImplementedError

    async def leftovers(self) -> Sequence[str]:
        return ()
