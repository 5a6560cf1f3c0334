"""A store that is away, silent, or loses its replies, when a test says so."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TypeVar

from anarchon.claim_store import ClaimBackend
from anarchon.errors import OutcomeUnknown, StoreUnavailable
from anarchon.store import Backend
from anarchon.testing.passing import Call, PassingBackend, PassingClaimBackend, Way

T = TypeVar("T")


class Faults(Way):
    """The faults on the way to a store; every connection made by it has them.

    ``away``: nothing arrives. ``silent``: nothing arrives, and nobody says so. ``loses``: of
    each verb, how many of the next replies get lost after the store did what was asked.
    ``calls`` counts what was asked, by verb.
    """

    def __init__(self) -> None:
        self.away = False
        self.silent = False
        self.loses: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()

    async def pass_on(self, verb: str, call: Call[T]) -> T:
        self.calls[verb] += 1
        if self.silent:
            await asyncio.get_running_loop().create_future()
        if self.away:
            raise StoreUnavailable(self.label, "away, as the test wants it")
        reply = await super().pass_on(verb, call)
        if self.loses[verb] > 0:
            self.loses[verb] -= 1
            raise OutcomeUnknown(self.label, "the reply got lost, as the test wants it")
        return reply


class FaultyBackend(Faults, PassingBackend):
    """Another backend that keeps leases, and the faults on the way to it."""

    def __init__(self, backend: Backend) -> None:
        Faults.__init__(self)
        PassingBackend.__init__(self, backend)


class FaultyClaimBackend(Faults, PassingClaimBackend):
    """Another backend that only decides claims, and the faults on the way to it."""

    def __init__(self, backend: ClaimBackend) -> None:
        Faults.__init__(self)
        PassingClaimBackend.__init__(self, backend)
