"""A backend in front of another, of which every question goes through one place."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

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


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """A call that is still to be made, and the questions in it."""

    make: Callable[[], Awaitable[T]]
    questions: Sequence[object] = ()

    async def __call__(self) -> T:
        return await self.make()


class PassingBackend:
    """Another backend, and ``pass_on``, through which every connection made here asks it."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    @property
    def label(self) -> str:
        return self._backend.label

    def connect(self, namespace: str) -> LeaseStore:
        return _PassingStore(self, self._backend.connect(namespace))

    async def pass_on(self, verb: str, call: Call[T]) -> T:
        """Make the call and return its reply; ``verb`` is the method's name."""
        return await call()


class _PassingStore:
    def __init__(self, way: PassingBackend, store: LeaseStore) -> None:
        self._way = way
        self._store = store

    @property
    def label(self) -> str:
        return self._store.label

    async def open(self) -> None:
        await self._way.pass_on("open", Call(self._store.open))

    async def close(self) -> None:
        await self._store.close()

    async def claim(self, claims: Sequence[Claim]) -> Reply[ClaimAnswer]:
        return await self._way.pass_on("claim", Call(lambda: self._store.claim(claims), claims))

    async def renew(self, renewals: Sequence[Renewal]) -> Reply[bool]:
        return await self._way.pass_on("renew", Call(lambda: self._store.renew(renewals), renewals))

    async def finish(self, finishes: Sequence[Finish]) -> Reply[bool]:
        return await self._way.pass_on(
            "finish", Call(lambda: self._store.finish(finishes), finishes)
        )

    async def release(self, releases: Sequence[Release]) -> Reply[bool]:
        return await self._way.pass_on(
            "release", Call(lambda: self._store.release(releases), releases)
        )

    async def active(self, jobs: Sequence[Registration]) -> Reply[KnownJob]:
        return await self._way.pass_on("active", Call(lambda: self._store.active(jobs), jobs))

    async def history(self, jobs: Sequence[str], limit: int) -> Reply[Attempt]:
        return await self._way.pass_on(
            "history", Call(lambda: self._store.history(jobs, limit), jobs)
        )

    async def prune(self, prunes: Sequence[Prune]) -> Reply[int]:
        return await self._way.pass_on("prune", Call(lambda: self._store.prune(prunes), prunes))
