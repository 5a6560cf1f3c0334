"""A backend that counts what is asked of it, and tells when nothing is left to ask."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence

from anarchon.run import Attempt
from anarchon.store import (
    Backend,
    Claim,
    ClaimAnswer,
    Finish,
    KnownJob,
    LeaseStore,
    Mode,
    Outcome,
    Prune,
    Registration,
    Release,
    Renewal,
    Reply,
)


class CountingBackend:
    """Another backend, and how often each of its calls was made through here.

    ``trips`` counts calls, ``asked`` the questions in them. A claim call in which everything
    is a takeover claim is a ``look``.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.trips: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self._settled: set[str] = set()
        self._more_settled = asyncio.Event()

    @property
    def label(self) -> str:
        return self._backend.label

    def connect(self, namespace: str) -> LeaseStore:
        return _CountingStore(self, self._backend.connect(namespace))

    def count(self, verb: str, questions: int) -> None:
        self.trips[verb] += 1
        self.asked[verb] += questions

    def settle(self, jobs: Iterable[str]) -> None:
        self._settled.update(jobs)
        self._more_settled.set()

    async def all_settled(self, jobs: int) -> None:
        """Wait until so many jobs have no more to be asked, each having one slot."""
        while len(self._settled) < jobs:
            self._more_settled.clear()
            await self._more_settled.wait()


class _CountingStore:
    def __init__(self, counts: CountingBackend, store: LeaseStore) -> None:
        self._counts = counts
        self._store = store

    @property
    def label(self) -> str:
        return self._store.label

    async def open(self) -> None:
        await self._store.open()

    async def close(self) -> None:
        await self._store.close()

    async def claim(self, claims: Sequence[Claim]) -> Reply[ClaimAnswer]:
        looks = all(claim.mode is Mode.TAKEOVER for claim in claims)
        self._counts.count("look" if looks else "claim", len(claims))
        reply = await self._store.claim(claims)
        for claim, answer in zip(claims, reply.answers, strict=True):
            self._counts.asked[f"heard {answer.outcome}"] += 1
            if answer.outcome is Outcome.DONE:
                self._counts.settle([claim.job])
        return reply

    async def renew(self, renewals: Sequence[Renewal]) -> Reply[bool]:
        self._counts.count("renew", len(renewals))
        return await self._store.renew(renewals)

    async def finish(self, finishes: Sequence[Finish]) -> Reply[bool]:
        self._counts.count("finish", len(finishes))
        reply = await self._store.finish(finishes)
        self._counts.settle(finish.job for finish in finishes)
        return reply

    async def release(self, releases: Sequence[Release]) -> Reply[bool]:
        self._counts.count("release", len(releases))
        return await self._store.release(releases)

    async def active(self, jobs: Sequence[Registration]) -> Reply[KnownJob]:
        self._counts.count("active", len(jobs))
        return await self._store.active(jobs)

    async def history(self, jobs: Sequence[str], limit: int) -> Reply[Attempt]:
        self._counts.count("history", len(jobs))
        return await self._store.history(jobs, limit)

    async def prune(self, prunes: Sequence[Prune]) -> Reply[int]:
        self._counts.count("prune", len(prunes))
        return await self._store.prune(prunes)
