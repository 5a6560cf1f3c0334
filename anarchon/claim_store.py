"""The port to a store that only says who has a slot, and keeps no leases.

Such a store tells one winner of a slot, and nothing more can be had from it: nobody learns
that the winner died, so there are no backups and no takeovers, and what its winner lost is
lost. Runs of one job are not kept apart either. What is left is what most schedules need: each
slot is started once at most, and once if its winner lives.

A claim on it is decided in this order.

1. *The store remembers a claim of the slot.* By this very token: ``won``. Else ``done``.
2. *It does not.* Before the slot: ``none``. Later than ``within``: ``late``. Else ``won``.

Every claim is a scheduled one, attempt 1, and its fence is the slot in milliseconds: it grows
from slot to slot, whatever the store may lose.

**What every adapter owes.**

- A claim is one atomic step of the store's. Where the store has a clock that can be read in
  that step, it is read there; else before it: a process that sleeps in between may start a slot
  late. Losing returns a value.
- A claim is remembered for longer than anybody could ask for its slot in time: at least for
  twice ``within`` and a minute, ``remembers`` says for how long. Retention never makes a slot
  winnable again that is not late by then. What else the store may forget stands in the
  adapter's documentation.
- Asking again under the same token is harmless, and so is saving again.
- Each method takes a sequence and answers in its order, each member on its own terms. A call
  names a job at most once.
- Errors, cancellation and connections: as ``anarchon.store`` has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol, runtime_checkable

from anarchon.clock import to_millis
from anarchon.run import Attempt
from anarchon.store import Backend, Claim, ClaimAnswer, Outcome, Reply


def refused_at(asked: Claim, time: datetime) -> Outcome | None:
    """Return what a claim of a slot that nobody has hears at this time, if it may not win it."""
    if time < asked.slot:
        return Outcome.NONE
    return Outcome.LATE if time - asked.slot > asked.within else None


def won(asked: Claim, holder: str | None, lease: timedelta) -> ClaimAnswer:
    """Return the answer to the token that has a slot, whoever asks under it."""
    fence = to_millis(asked.slot)
    return ClaimAnswer(Outcome.WON, attempt=1, fence=fence, lease=lease, holder=holder)


@dataclass(frozen=True, slots=True)
class Save:
    """An attempt as its history record is to be from now on; ``keep`` is how many a job has."""

    attempt: Attempt
    keep: int

    @property
    def job(self) -> str:
        return self.attempt.job


class ClaimStore(Protocol):
    """One connection to a store that only decides claims, within one namespace.

    Every method raises ``StoreUnavailable``, ``OutcomeUnknown`` or another ``StoreError``.
    A store without a clock answers with this host's.
    """

    @property
    def label(self) -> str:
        """The store as it may be shown: never with a password."""

    async def open(self) -> None:
        """Connect, bring the store to this version, and check that it can keep a promise.

        Raises ``SchemaMismatch`` if a newer version of this package was here.
        """

    async def close(self) -> None:
        """Let the connection go; harmless when there is none."""

    async def claim(self, claims: Sequence[Claim]) -> Reply[ClaimAnswer]:
        """Ask for slots, at most one of each job; no claims at all: just tell the time."""

    async def save(self, saves: Sequence[Save]) -> Reply[bool]:
        """Write how attempts ended into the history; ``False`` where the store keeps none.

        A claim that wins has opened the record; an attempt that was never saved stays open.
        """

    async def history(self, jobs: Sequence[str], limit: int) -> Reply[Attempt]:
        """Return the newest attempts of these jobs, newest slot first, at most ``limit``.

        Raises ``NoHistory`` where the store keeps none.
        """


@runtime_checkable
class ClaimBackend(Protocol):
    """How to reach a claim-only store; making one reads its settings and connects nowhere."""

    @property
    def label(self) -> str:
        """The store as it may be shown: never with a password."""

    def connect(self, namespace: str) -> ClaimStore:
        """Return a store that will connect on its own when it is opened."""

    @property
    def judges_time(self) -> bool:
        """Whether early and late are judged in the same step as the claim, by the store's clock.

        Where they are not, whoever was frozen in between for longer than a claim is remembered
        may win its slot again.
        """

    def remembers(self, within: timedelta) -> timedelta | None:
        """Return for how long a claim with this ``within`` is remembered; none: for ever."""


#: What a store may be reached by.
AnyBackend = Backend | ClaimBackend
