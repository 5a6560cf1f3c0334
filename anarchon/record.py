"""What a store keeps of one job, and what a rule makes of it.

A rule takes a ``JobRecord`` and returns a ``Step``; ``anarchon.rules`` and
``anarchon.tracked`` hold them. Records are values: a step never changes the one handed in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from anarchon.clock import EPOCH, MILLISECOND, from_millis, to_millis
from anarchon.run import Attempt, RunState
from anarchon.store import Claim, Mode, Registration, Terms

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class Run:
    """A claimed slot, or the mark of a skipped one.

    ``token`` is that of the current attempt, ``None`` once it was released; ``expires`` is when
    its lease lapses, ``None`` when there is no lease. ``lapses`` counts the attempts that
    lapsed before this one. ``spent`` tells the tokens of former attempts. A run that was
    finished keeps the token that did it, so that asking again hears the same.

    The rest is of tracked runs. ``deadline`` is until when the attempt may be begun, ``None``
    once it was; ``nonce`` is the delivery that runs it and ``holder`` whose worker renews its
    lease, both ``None`` while nobody runs it; ``retry`` is the broker's number of the message
    that was begun last, or is waited for. For the history: ``message`` is the broker's name for
    it, and ``begun`` when this attempt was begun first.
    """

    slot: datetime
    state: RunState
    terms: Terms
    attempt: int
    lapses: int
    token: str | None
    expires: datetime | None
    instance: str
    fence: int
    started: datetime
    spent: tuple[str, ...] = ()
    deadline: datetime | None = None
    retry: int = 0
    nonce: str | None = None
    holder: str | None = None
    message: str | None = None
    begun: datetime | None = None

    @property
    def is_tracked(self) -> bool:
        return self.terms.start_within is not None

    def is_leased_at(self, time: datetime) -> bool:
        return not self.state.has_ended and self.expires is not None and self.expires > time

    def is_overdue_at(self, time: datetime) -> bool:
        """Tell whether nobody may begin it any more, and nobody keeps it either."""
        return (
            not self.state.has_ended
            and self.deadline is not None
            and self.deadline <= time
            and not self.is_leased_at(time)
        )

    def is_busy_at(self, time: datetime) -> bool:
        waits = self.state is RunState.QUEUED and not self.is_overdue_at(time)
        return waits or self.is_leased_at(time)

    def is_held_by(self, token: str, nonce: str | None = None) -> bool:
        """Tell whether this attempt is theirs to end; nobody ends what waits in a broker."""
        return self.state is not RunState.QUEUED and self.token == token and self.nonce == nonce

    def has_had(self, token: str) -> bool:
        """Tell whether a token had an attempt of this run, so that it may not start another."""
        return token == self.token or token in self.spent or _lapsed(token) in self.spent

    def was_released_by(self, token: str) -> bool:
        return token in self.spent

    def spent_by_lapse(self) -> tuple[str, ...]:
        """Return the spent tokens once the current one, if there is one, lapsed."""
        return self.spent if self.token is None else (*self.spent, _lapsed(self.token))


def _lapsed(token: str) -> str:
    # one list for both, told apart: the release of a token that lapsed is refused
    return f"lapsed:{token}"


@dataclass(frozen=True, slots=True)
class Seen:
    """When a fingerprint was registered first and last."""

    first: datetime
    last: datetime


@dataclass(frozen=True, slots=True)
class JobRecord:
    """What a store keeps of one job.

    ``newest`` is the newest slot that was ever won or skipped; at first it is the floor.
    """

    floor: datetime
    newest: datetime = EPOCH
    fence: int = 0
    seen: Mapping[str, Seen] = field(default_factory=dict)
    runs: Mapping[datetime, Run] = field(default_factory=dict)

    @classmethod
    def made_by(cls, asked: Claim | Registration, time: datetime) -> JobRecord:
        """Make the record of a job that this question is the first to name."""
        if (
            isinstance(asked, Claim)
            and asked.mode is Mode.SCHEDULED
            and timedelta(0) <= time - asked.slot <= asked.within
        ):
            floor = asked.slot - MILLISECOND
            # whoever asks with an older one found its slot by what the store has lost
            return cls(floor, newest=min(floor, asked.after or floor))
        # whole milliseconds, as every store keeps it: a slot of this very millisecond counts
        # as past, and a moment read back from a store equals the one in memory
        floor = from_millis(to_millis(time))
        return cls(floor, newest=floor)

    def having(self, run: Run) -> JobRecord:
        """Return this record with a run put in, in the place of the one of its slot."""
        return replace(self, runs={**self.runs, run.slot: run})

    def having_new(self, run: Run) -> JobRecord:
        """Return this record with a run of a slot, or the mark of one, that had none."""
        return replace(self.having(run), newest=max(self.newest, run.slot))


@dataclass(frozen=True, slots=True)
class Step(Generic[A]):
    """An answer and what it changes; ``record`` is the very same object where nothing does.

    ``attempts`` are the history records as they are to be from now on.
    """

    answer: A
    record: JobRecord
    attempts: tuple[Attempt, ...] = ()


def opened(job: str, run: Run) -> Attempt:
    """Return the history record of an attempt under way."""
    return Attempt(
        job,
        run.slot,
        run.attempt,
        run.state,
        run.instance,
        run.fence,
        run.started,
        worker=run.holder,
        message=run.message,
        begun=run.begun,
    )


def closed(
    job: str, run: Run, state: RunState, time: datetime, detail: str | None = None
) -> Attempt:
    """Return the history record of an attempt that ends now."""
    return replace(opened(job, run), state=state, ended=time, detail=detail)


def end(job: str, run: Run, state: RunState, time: datetime) -> tuple[Run, tuple[Attempt, ...]]:
    """End a run that its own token did not end, and its current attempt if it has one."""
    ended = replace(run, state=state, token=None, expires=None)
    # the attempt of a released run was closed when it was released
    return ended, () if run.token is None else (closed(job, run, state, time),)
