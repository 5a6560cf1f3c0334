"""The claim-only store in memory, seen from behind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from anarchon.backends.memory_claims import MemoryClaimBackend, MemoryClaimStore
from anarchon_contract.claims.harness import NAMESPACE, Feature


@asynccontextmanager
async def open_harness(name: str) -> AsyncIterator[MemoryHarness]:
    yield MemoryHarness()


class MemoryHarness:
    features = frozenset({Feature.HISTORY, Feature.ANY_ORDER, Feature.HOLDER})

    def __init__(self) -> None:
        self.backend = MemoryClaimBackend()

    @property
    def url(self) -> str:
        raise NotImplementedError

    def connect(self, namespace: str = NAMESPACE) -> MemoryClaimStore:
        return self.backend.connect(namespace)

    async def wipe(self) -> None:
        self.backend = MemoryClaimBackend()

    async def empty(self) -> None:
        for space in self.backend._namespaces.values():
            space.claims.clear()
            space.attempts.clear()

    async def stamp_newer_version(self) -> None:
        raise NotImplementedError

    async def leftovers(self) -> Sequence[str]:
        return ()
