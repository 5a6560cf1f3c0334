"""The state of the searched world, and when two states differ in names only.

Everything is a number, a short text, or a tuple of these, so that millions of states can be
compared. Tokens and the nonces of deliveries are numbers that are used again when nobody has
them any more. Times are reduced to what the rules see of them: whether a lease or a start
deadline is over.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, TypeVar

from anarchon.record import JobRecord, Run
from anarchon.run import RunState
from anarchon.store import Mode, Terms

T = TypeVar("T")

ZERO = datetime(2026, 1, 1, tzinfo=UTC)
STEP, WITHIN = timedelta(seconds=100), timedelta(seconds=50)
FAR, PAST = ZERO + timedelta(days=9), ZERO - timedelta(days=9)
LAPSED = "lapsed:"


def slot_of(number: int) -> datetime:
    return ZERO + number * STEP


def time_of(phase: int) -> datetime:
    """Return the time in a phase: slot ``phase`` is in time, older ones are late."""
    return slot_of(phase) + timedelta(seconds=1)


class Kept(NamedTuple):
    """A run as the store has it; ``leased`` and ``startable`` stand for its two times.

    Attempts are not counted, and all ends look alike: no rule asks for either.
    """

    state: RunState
    lapses: int
    token: int | None
    leased: bool | None
    spent: tuple[tuple[int, bool], ...] = ()
    startable: bool | None = None
    retry: int = 0
    nonce: int | None = None

    @property
    def is_unfinished(self) -> bool:
        return not self.state.has_ended

    @property
    def is_overdue(self) -> bool:
        return self.is_unfinished and self.startable is False and not self.leased

    @property
    def is_busy(self) -> bool:
        waits = self.state is RunState.QUEUED and self.startable is not False
        return self.is_unfinished and (waits or self.leased is True)

    def run(self, slot: int, terms: Terms) -> Run:
        return Run(
            slot=slot_of(slot),
            state=self.state,
            terms=terms,
            attempt=0 if self.state is RunState.SKIPPED else 1,
            lapses=self.lapses,
            token=text(self.token),
            expires=_time(self.leased),
            instance="",
            fence=0,
            started=ZERO,
            spent=tuple(
                f"{LAPSED}{token}" if lapsed else f"{token}" for token, lapsed in self.spent
            ),
            deadline=_time(self.startable),
            retry=self.retry,
            nonce=text(self.nonce),
            holder=text(self.nonce),
        )

    @classmethod
    def of(cls, run: Run, now: datetime) -> Kept:
        token, nonce = _number(run.token), _number(run.nonce)
        if run.state is RunState.SKIPPED:
            return cls(run.state, 0, None, None)
        if run.state.has_ended:
            return cls(RunState.SUCCESS, 0, token, None, nonce=nonce)
        return cls(
            run.state,
            run.lapses,
            token,
            None if run.expires is None else run.expires > now,
            tuple((int(old.removeprefix(LAPSED)), old.startswith(LAPSED)) for old in run.spent),
            None if run.deadline is None else run.deadline > now,
            run.retry,
            nonce,
        )


class Stored(NamedTuple):
    """A job's record: the number of the slot at its floor, and a run or none for each slot."""

    floor: int
    runs: tuple[Kept | None, ...]

    def record(self, terms: Terms) -> JobRecord:
        runs = [kept.run(slot, terms) for slot, kept in enumerate(self.runs) if kept is not None]
        return JobRecord(floor=slot_of(self.floor), runs={run.slot: run for run in runs})

    def after(self, record: JobRecord, now: datetime) -> Stored:
        found = [record.runs.get(slot_of(slot)) for slot in range(len(self.runs))]
        runs = tuple(None if run is None else Kept.of(run, now) for run in found)
        return Stored((record.floor - ZERO) // STEP, runs)


class Local(NamedTuple):
    """What one instance knows of one slot.

    ``idle``, ``sent`` and waiting for an answer, ``unknown`` after it was lost, ``watch``,
    ``run`` under a lease, ``publish`` under a lease, ``mark`` what was published, or ``off``.
    """

    knows: str = "idle"
    token: int | None = None
    mode: str = ""


class Wire(NamedTuple):
    """A claim on its way to the store."""

    instance: int
    slot: int
    mode: Mode
    again: bool
    token: int


class Message(NamedTuple):
    """A message in the broker, for one attempt and one retry of it."""

    slot: int
    retry: int
    token: int


class Delivery(NamedTuple):
    """A message at a worker.

    It is to ``begin``, was ``asked`` for without an answer, is in its ``body``, or ``retries``:
    the message of its retry was sent. As an echo: a ``begin`` that is still on its way.
    """

    slot: int
    retry: int
    stage: str
    token: int
    nonce: int


class World(NamedTuple):
    """All there is. From ``over`` on it is not part of the world, but what a judge remembers.

    ``over`` are the slots that a finish ended, ``owner`` the token that won each slot's newest
    attempt, ``granted`` the tokens that ever won one, ``runner`` the delivery that began each
    slot last, ``starts`` the retries whose work has started.
    """

    phase: int
    stored: Stored
    up: tuple[str, ...]
    local: tuple[tuple[Local, ...], ...]
    wire: tuple[Wire, ...]
    messages: tuple[Message, ...]
    deliveries: tuple[Delivery, ...]
    echoes: tuple[Delivery, ...]
    faults: int
    claims: int
    lost_message: bool
    over: tuple[bool, ...]
    owner: tuple[int | None, ...]
    granted: tuple[int, ...]
    runner: tuple[int | None, ...]
    starts: tuple[tuple[int, int], ...]
    broken: str | None = None

    def tokens(self) -> Iterator[int | None]:
        """Name the tokens that anybody has or remembers."""
        for kept in self.stored.runs:
            if kept is not None:
                yield kept.token
                yield from (token for token, _ in kept.spent)
        yield from self.asking_tokens()
        yield from self.owner
        yield from self.granted
        yield from (token for token, _ in self.starts)

    def asking_tokens(self) -> set[int | None]:
        """Name the tokens that somebody may still write under."""
        asking = {local.token for mine in self.local for local in mine}
        for part in (self.wire, self.messages, self.deliveries, self.echoes):
            asking.update([asked.token for asked in part])
        return asking

    def nonces(self) -> Iterator[int | None]:
        """Name the deliveries that anybody knows or remembers."""
        yield from (kept.nonce for kept in self.stored.runs if kept is not None)
        yield from (delivery.nonce for delivery in self.deliveries)
        yield from (echo.nonce for echo in self.echoes)
        yield from self.runner


def unused(used: Iterator[int | None]) -> int:
    """Return the smallest number that nobody has."""
    taken = set(used)
    return next(number for number in range(len(taken) + 1) if number not in taken)


def put(values: tuple[T, ...], index: int, value: T) -> tuple[T, ...]:
    return (*values[:index], value, *values[index + 1 :])


def text(number: int | None) -> str | None:
    return None if number is None else str(number)


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)


def _time(ahead: bool | None) -> datetime | None:
    return None if ahead is None else FAR if ahead else PAST
