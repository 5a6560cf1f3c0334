"""What a claim-only backend brings to be held to ``anarchon.claim_store``.

A harness reaches into its store by another way than the adapter does. It works on ``NAMESPACE``
only, and on those whose name begins like it.

A test module gives it in the fixture ``open_harness``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from typing import Protocol, TypeAlias

from anarchon.claim_store import ClaimBackend, ClaimStore

NAMESPACE = "claims"


class Feature(StrEnum):
    """What not every store has; a test that needs it is skipped elsewhere, with this reason."""

    SERVER_CLOCK = "the store has a clock of its own, which no client moves"
    SCHEMA = "the store keeps the version of its tables or keys"
    HISTORY = "the store keeps a history"
    ANY_ORDER = "an older slot can be won after a newer one of its job"
    HOLDER = "who asks for a slot that is done is told who has it"
    PROCESSES = "several processes reach the store by its URL"


class Harness(Protocol):
    """One store, seen from behind."""

    @property
    def features(self) -> frozenset[Feature]:
        """What this store has of the things that not every store has."""

    @property
    def backend(self) -> ClaimBackend:
        """The backend that is held to the contract."""

    @property
    def url(self) -> str:
        """How other processes reach it, by ``open_backend``; asked for with ``PROCESSES`` only."""

    def connect(self, namespace: str = NAMESPACE) -> ClaimStore:
        """Return a store that is not open yet, with a connection of its own."""

    async def wipe(self) -> None:
        """Make the store as new, whatever version it was left with."""

    async def empty(self) -> None:
        """Delete every claim and history of every namespace, whoever is connected."""

    async def stamp_newer_version(self) -> None:
        """Make the store look as if a later version of this package had been here."""

    async def leftovers(self) -> Sequence[str]:
        """Describe what is left once every store is closed, and would never go by itself.

        That is open connections, locks, threads, and whatever lies outside the namespaces; what
        the adapter's documentation says is kept of a job is none of it.
        """


OpenHarness: TypeAlias = Callable[[], AbstractAsyncContextManager[Harness]]
