"""What a backend brings to be held to the contract.

A harness reaches into its store by another way than the adapter does: it ages a lease, so
that no test sleeps, and looks at what was left behind. It works on ``NAMESPACE`` only.

A test module gives it in the fixtures ``open_harness`` and ``open_held_harness``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol, TypeAlias

from anarchon.store import LeaseStore

NAMESPACE = "contract"


class Feature(StrEnum):
    """What not every store has; a test that needs it is skipped elsewhere, with this reason."""

    SERVER_CLOCK = "the store has a clock of its own, which no client moves"
    SCHEMA = "the store keeps the version of its tables or keys"


class Harness(Protocol):
    """One store, seen from behind."""

    @property
    def features(self) -> frozenset[Feature]:
        """What this store has of the things that not every store has."""

    def connect(self, namespace: str = NAMESPACE) -> LeaseStore:
        """Return a store that is not open yet, with a connection of its own."""

    async def wipe(self) -> None:
        """Make the store as new, whatever version it was left with."""

    async def empty(self) -> None:
        """Delete every record of every namespace under the feet of whoever is connected."""

    async def lapse(self, job: str, slot: datetime) -> None:
        """Put the end of the lease of a run one second into the store's past."""

    async def lower_floor(self, jobs: Sequence[str], floor: datetime) -> None:
        """Set the floor of jobs that have a record, as if they had been met first then."""

    async def raise_fence(self, job: str, fence: int) -> None:
        """Set the fence of a job that has a record, as if its clock had been ahead once."""

    async def age_fingerprint(self, job: str, fingerprint: str, by: timedelta) -> None:
        """Move back the time a fingerprint of a job was seen last."""

    async def stamp_newer_version(self) -> None:
        """Make the store look as if a later version of this package had been here."""

    async def leftovers(self) -> Sequence[str]:
        """Describe what is left once every store is closed, and would never go by itself.

        That is open connections and transactions, locks, threads, and whatever lies outside
        the namespaces; a job's record stays by design and is none of it.
        """


class HeldHarness(Harness, Protocol):
    """One whose store is the real one but for the place where it reads its clock."""

    async def set_clock(self, time: datetime) -> None:
        """Let the clock stand still here; ``empty`` and ``wipe`` may lose it."""


OpenHarness: TypeAlias = Callable[[], AbstractAsyncContextManager[Harness]]
OpenHeldHarness: TypeAlias = Callable[[], AbstractAsyncContextManager[HeldHarness]]
