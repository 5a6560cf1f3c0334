"""A store that is away, silent, or loses its replies, when a test says so."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from anarchon.errors import OutcomeUnknown, StoreUnavailable
from anarchon.run import Attempt
from anarchon.store import (
    Backend,
    Claim,
    ClaimAnswer,
    Finish,
    KnownJob,
    LeaseStore,
    Prune,
    Registration,
    Release,
    Renewal,
    Reply,
)

T = TypeVar("T")


class FaultyBackend:
    """Another backend, and the faults on the way to it; every connection made here has them.

    ``away``: nothing arrives. ``silent``: nothing arrives, and nobody says so. ``loses``: of
    each verb, how many of the next replies get lost after the store did what was asked.
    ``calls`` counts what was asked, by verb.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.away = False
        self.silent = False
        self.loses: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()

    @property
    def label(self) -> str:
        return self._backend.label

    def connect(self, namespace: str) -> LeaseStore:
        return _FaultyStore(self, self._backend.connect(namespace))

    async def pass_on(self, verb: str, call: Callable[[], Awaitable[T]]) -> T:
        self.calls[verb] += 1
        if self.silent:
            await asyncio.get_running_loop().create_future()
        if self.away:
            raise StoreUnavailable(self.label, "away, as the test wants it")
        reply = await call()
        if self.loses[verb] > 0:
            self.loses[verb] -= 1
            raise OutcomeUnknown(self.label, "the reply got lost, as the test wants it")
        return reply


class _FaultyStore:
    def __init__(self, faults: FaultyBackend, store: LeaseStore) -> None:
        self._faults = faults
        self._store = store

    @property
    def label(self) -> str:
        return self._store.label

    async def open(self) -> None:
        await self._faults.pass_on("open", self._store.open)

    async def close(self) -> None:
        await self._store.close()

    async def claim(self, claims: Sequence[Claim]) -> Reply[ClaimAnswer]:
        return await self._faults.pass_on("claim", lambda: self._store.claim(claims))

    async def renew(self, renewals: Sequence[Renewal]) -> Reply[bool]:
        return await self._faults.pass_on("renew", lambda: self._store.renew(renewals))

    async def finish(self, finishes: Sequence[Finish]) -> Reply[bool]:
        return await self._faults.pass_on("finish", lambda: self._store.finish(finishes))

    async def release(self, releases: Sequence[Release]) -> Reply[bool]:
        return await self._faults.pass_on("release", lambda: self._store.release(releases))

    async def active(self, jobs: Sequence[Registration]) -> Reply[KnownJob]:
        return await self._faults.pass_on("active", lambda: self._store.active(jobs))

    async def history(self, jobs: Sequence[str], limit: int) -> Reply[Attempt]:
        return await self._faults.pass_on("history", lambda: self._store.history(jobs, limit))

    async def prune(self, prunes: Sequence[Prune]) -> Reply[int]:
        return await self._faults.pass_on("prune", lambda: self._store.prune(prunes))
