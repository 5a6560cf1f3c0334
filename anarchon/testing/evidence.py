"""What is laid before the checker: who was up, what was done to them, and what really ran.

None of it comes from the store. Whoever injects faults says what it did and when; the work
writes down by itself that it ran, to a place of its own. All times are true ones: those of
the machine the test runs on, or of its virtual clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from anarchon.job import Job


class Fault(StrEnum):
    """What was done to an instance, or to the store."""

    FROZEN = "frozen"
    """It did not run: SIGSTOP, a stalled loop, a suspended machine."""
    CUT = "cut"
    """Its way to the store was cut, silent or slow."""
    AWAY = "away"
    """The store was down, frozen or silent, for everybody."""
    FORGOT = "forgot"
    """The store lost writes that it had acknowledged; they are those of this span."""
    CLOCK = "clock"
    """A clock showed a wrong time or was set: the instance's, or the store's."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """A fault, and from when until when it was there; ``instance`` is ``None`` for the store."""

    fault: Fault
    start: datetime
    end: datetime
    instance: str | None = None


@dataclass(frozen=True, slots=True)
class Life:
    """One instance from the moment it could claim anything until it was killed, or told to stop.

    ``end`` is ``None`` if it still lived when the evidence was taken. ``killed`` tells a kill
    from a graceful stop. ``jobs`` are those it declared, in its own edition.
    """

    instance: str
    jobs: Sequence[Job]
    start: datetime
    end: datetime | None = None
    killed: bool = False


@dataclass(frozen=True, slots=True)
class Body:
    """One start of a job's work, as the work itself wrote it down.

    ``ended`` is ``None`` if it never ended. Of a job that publishes it is the message: it
    started and ended when it was sent. ``failed`` says that the work raised.
    """

    job: str
    slot: datetime
    attempt: int
    fence: int
    instance: str
    started: datetime
    ended: datetime | None
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything about one test; it is complete up to ``until``.

    On a store without leases nobody has to see to what somebody harmed may have won.
    """

    lives: Sequence[Life]
    bodies: Sequence[Body]
    troubles: Sequence[Trouble]
    until: datetime
    keeps_leases: bool = True
