"""The port to a store: what the engine asks of it, and what it may rely on.

**What the store is authoritative for.** Who runs a slot, whether a lease lives, whether a
slot is due or late, which attempt is whose: all of it is decided inside the store, in one
atomic step per claim, by the store's own clock. An instance knows only what it was told,
and for how long it may trust that (``anarchon.keeper``).

**What is kept.** One record a job: the *floor* (slots at or below it are answered ``done``
for ever), the *fence* (grows with every attempt), the *newest* slot that was won or skipped,
when each edition of its schedule was first and last seen, and its runs. One history record an
attempt. ``anarchon.rules`` says what each call does to them; every adapter is held to those
rules by the same suite.

**What every adapter owes.**

- A claim is one atomic step, with the store's clock read inside it. Losing returns a value.
- Every later write for an attempt carries its token, and is refused if that is not the
  run's token any more.
- Asking again under the same token is harmless: a claim hears ``won`` again while its lease
  lives, a token that ended an attempt hears its first answer again, and none ever wins a
  second attempt.
- Each method takes a sequence and answers in its order, each member on its own terms. A
  claim call names a job at most once: two slots of one job in one step could both win.
- The driver's errors become ``StoreError``: ``StoreUnavailable`` only where nothing can have
  happened, ``OutcomeUnknown`` where it may have. An adapter connects by itself when it has
  to; it does not retry what may have happened.
- A call may be cancelled at any time (the engine gives each a deadline). The next call must
  then find a clean connection. One store is asked one call at a time.
- Retention never changes an answer: what ``prune`` deletes lies at or below the floor,
  raised in the same step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

from anarchon.run import Attempt, Overlap, RunState

A_co = TypeVar("A_co", covariant=True)


class Mode(StrEnum):
    """Why a slot is claimed."""

    SCHEDULED = "scheduled"
    CATCH_UP = "catch-up"
    TAKEOVER = "takeover"
    """A look: starts attempt 2 and later of a run whose lease lapsed, and never a slot anew."""


class Outcome(StrEnum):
    """What the store says to a claim."""

    WON = "won"
    RUNNING = "running"
    """Somebody holds the run, or it waits for a takeover: watch it."""
    OVERLAP = "overlap"
    """Another run of the job is busy."""
    LATE = "late"
    DONE = "done"
    NONE = "none"
    """Nobody claimed the slot yet, and this claim may not start it."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds for a run from its first attempt on, whoever looks at it later.

    ``begins_as`` is ``RUNNING`` for work done here, ``CLAIMED`` for work to be published.
    ``max_attempts`` counts the attempts that lapsed. ``start_within`` is how long after its
    slot published work may be begun; it makes the run tracked, ``None`` leaves it untracked.
    """

    lease: timedelta
    overlap: Overlap
    max_attempts: int
    begins_as: RunState
    start_within: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """The request for a slot; ``within`` is how long after its slot it may still start.

    ``after`` is for slots that nobody can know beforehand, since each follows from the one
    before: the job's newest slot that this one was found by. Takeovers carry none.
    """

    job: str
    slot: datetime
    token: str
    mode: Mode
    instance: str
    terms: Terms
    within: timedelta
    after: datetime | None = None


@dataclass(frozen=True, slots=True)
class ClaimAnswer:
    """The store's word on a claim.

    ``attempt``, ``fence`` and ``lease`` are those of the run (its own lease length, which may
    differ from the one asked with); ``holder`` is the instance of its current attempt;
    ``blocker`` is the slot of the run that an ``overlap`` is about. ``waits`` is true where it
    is ``running`` because a broker has it, and no worker has begun it yet. ``start_by`` is until
    when the work of a won attempt may be begun, if it is tracked.
    """

    outcome: Outcome
    attempt: int = 0
    fence: int = 0
    lease: timedelta | None = None
    holder: str | None = None
    blocker: datetime | None = None
    waits: bool = False
    start_by: datetime | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """What makes a renewal the mark that a tracked run waits in the broker.

    Without a ``nonce`` it is the publisher's: the message was sent. With one it is that of the
    delivery whose task is to be retried: ``retry`` is the number of the message it sent for
    that, ``delay`` how long the broker holds it back.
    """

    nonce: str | None = None
    retry: int = 0
    delay: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True)
class Renewal:
    """One heartbeat of one lease, or the mark that there is none because a broker has the work.

    ``holder`` is the worker that the run was begun by; ``None`` for an instance's own lease.
    """

    job: str
    slot: datetime
    token: str
    holder: str | None = None
    waiting: Waiting | None = None


@dataclass(frozen=True, slots=True)
class Begin:
    """A worker's question whether the work of a message may start.

    ``token`` is the message's, ``retry`` the broker's number of it, 0 first. ``nonce`` is made
    for this delivery and sent again when an answer was lost; ``holder`` is the worker that
    will renew the lease, and ``message`` the broker's name for the message; both are shown in
    the history.
    """

    job: str
    slot: datetime
    token: str
    retry: int
    nonce: str
    holder: str
    message: str


@dataclass(frozen=True, slots=True)
class Finish:
    """The end of a run: ``SUCCESS``, ``PUBLISHED`` or ``FAILED``.

    ``nonce`` is that of the delivery that began it; ``None`` where nobody had to begin it.
    """

    job: str
    slot: datetime
    token: str
    state: RunState
    detail: str | None = None
    nonce: str | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """A lease given back unused or unfinished; the run waits for a takeover.

    A run of one attempt ends as ``interrupted`` instead, if its work had begun.
    """

    job: str
    slot: datetime
    token: str
    begun: bool = True


@dataclass(frozen=True, slots=True)
class Registration:
    """A job as an instance knows it; ``fingerprint`` stands for its schedule and task."""

    job: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A run that has not ended; ``busy`` says that its lease lives, or a broker has it."""

    slot: datetime
    attempt: int
    busy: bool
    holder: str | None


@dataclass(frozen=True, slots=True)
class KnownJob:
    """What the store knows of a registered job.

    ``first_seen`` is for the fingerprint given: nothing due before it may be caught up.
    ``newest`` is the newest slot that was ever won or skipped, at first the floor.
    ``others`` are the other fingerprints in use, with the time each was seen last;
    ``unfinished`` is ordered by slot.
    """

    first_seen: datetime
    newest: datetime
    others: tuple[tuple[str, datetime], ...] = ()
    unfinished: tuple[Unfinished, ...] = ()


@dataclass(frozen=True, slots=True)
class Prune:
    """How much of a job's past to keep: the newest ``keep`` attempts, none older than 30 days.

    Nothing with a slot younger than ``spare`` is touched: a claim in time may still ask for it.
    """

    job: str
    keep: int
    spare: timedelta


#: History older than this goes, and runs unfinished for so long end as ``lost``.
RETENTION = timedelta(days=30)

#: A fingerprint not registered for this long is forgotten when another one is: the schedule
#: was edited, and coming back to the old text is a new edition. Instances register anew
#: every half of it.
FINGERPRINT_MEMORY = timedelta(hours=2)


@dataclass(frozen=True, slots=True)
class Reply(Generic[A_co]):
    """Answers in the order of the questions, and the store's time when it gave them."""

    time: datetime
    answers: tuple[A_co, ...]


class LeaseStore(Protocol):
    """One connection to a store that keeps leases, within one namespace.

    Every method raises ``StoreUnavailable``, ``OutcomeUnknown`` or another ``StoreError``.
    """

    @property
    def label(self) -> str:
        """The store as it may be shown: never with a password."""

    async def open(self) -> None:
        """Connect, bring the store to this version, and check that it can keep a promise.

        Raises ``SchemaMismatch`` if a newer version of this package was here.
        """

    async def close(self) -> None:
        """Let the connection go; harmless when there is none. What was granted stays granted."""

    async def claim(self, claims: Sequence[Claim]) -> Reply[ClaimAnswer]:
        """Ask for slots, at most one of each job."""

    async def renew(self, renewals: Sequence[Renewal]) -> Reply[bool]:
        """Set live leases anew; ``False`` where the token is not the run's or its lease lapsed."""

    async def begin(self, begins: Sequence[Begin]) -> Reply[bool]:
        """Let workers start what was published; ``False`` where this delivery may not."""

    async def finish(self, finishes: Sequence[Finish]) -> Reply[bool]:
        """End runs and their history records; ``False`` where the token is not the run's."""

    async def release(self, releases: Sequence[Release]) -> Reply[bool]:
        """Give leases back; ``False`` where the token is not the run's."""

    async def active(self, jobs: Sequence[Registration]) -> Reply[KnownJob]:
        """Register jobs and say what is known of them; no jobs at all: just tell the time."""

    async def history(self, jobs: Sequence[str], limit: int) -> Reply[Attempt]:
        """Return the newest attempts of these jobs, newest slot first, at most ``limit``."""

    async def prune(self, prunes: Sequence[Prune]) -> Reply[int]:
        """Delete what retention allows; say for each job how many attempts went.

        Ends as ``lost`` also what has been unfinished, of whatever job of the namespace and
        not busy, for longer than ``RETENTION``.
        """


class Backend(Protocol):
    """How to reach a store; making one reads and checks its settings and connects nowhere."""

    @property
    def label(self) -> str:
        """The store as it may be shown: never with a password."""

    def connect(self, namespace: str) -> LeaseStore:
        """Return a store that will connect on its own when it is opened."""
