"""A backend in front of another, of which every question goes through one place."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Generic, TypeVar

from anarchon.claim_store import ClaimBackend, ClaimStore, Save
from anarchon.run import Attempt
from anarchon.store import (
    Backend,
    Begin,
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


class Way(ABC):
    """Where every question goes through: ``pass_on`` is asked by every connection."""

    @property
    @abstractmethod
    def label(self) -> str:
        """The store as it may be shown: never with a password."""

    async def pass_on(self, verb: str, call: Call[T]) -> T:
        """Make the call and return its reply; ``verb`` is the method's name."""
        return await call()


class PassingBackend(Way):
    """Another backend that keeps leases, and the way to it."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    @property
    def label(self) -> str:
        return self._backend.label

    def connect(self, namespace: str) -> LeaseStore:
        return _PassingStore(self, self._backend.connect(namespace))


class PassingClaimBackend(Way):
    """Another backend that only decides claims, and the way to it."""

    def __init__(self, backend: ClaimBackend) -> None:
        self._backend = backend

    @property
    def label(self) -> str:
        return self._backend.label

    def connect(self, namespace: str) -> ClaimStore:
        return _PassingClaimStore(self, self._backend.connect(namespace))

    @property
    def judges_time(self) -> bool:
        return self._backend.judges_time

    def remembers(self, within: timedelta) -> timedelta | None:
        return self._backend.remembers(within)


S = TypeVar("S", LeaseStore, ClaimStore)


class _Passing(Generic[S]):
    """What the ports of both kinds have."""

    def __init__(self, way: Way, store: S) -> None:
        self._way = way
        self._store: S = store

    @property
    def label(self) -> str:
        return self._store.label

    async def open(self) -> None:
        await self._way.pass_on("open", Call(self._store.open))

    async def close(self) -> None:
        await self._store.close()

    async def claim(self, claims: Sequence[Claim]) -> Reply[ClaimAnswer]:
        return await self._way.pass_on("claim", Call(lambda: self._store.claim(claims), claims))

    async def history(self, jobs: Sequence[str], limit: int) -> Reply[Attempt]:
        return await self._way.pass_on(
            "history", Call(lambda: self._store.history(jobs, limit), jobs)
        )


class _PassingClaimStore(_Passing[ClaimStore]):
    async def save(self, saves: Sequence[Save]) -> Reply[bool]:
        return await self._way.pass_on("save", Call(lambda: self._store.save(saves), saves))


class _PassingStore(_Passing[LeaseStore]):
    async def renew(self, renewals: Sequence[Renewal]) -> Reply[bool]:
        return await self._way.pass_on("renew", Call(lambda: self._store.renew(renewals), renewals))

    async def begin(self, begins: Sequence[Begin]) -> Reply[bool]:
        return await self._way.pass_on("begin", Call(lambda: self._store.begin(begins), begins))

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

    async def prune(self, prunes: Sequence[Prune]) -> Reply[int]:
        return await self._way.pass_on("prune", Call(lambda: self._store.prune(prunes), prunes))
