"""The protocol, as pure functions on the record of one job.

Each function takes the record and the store's time and returns a ``Step``: the answer, the
record as it is afterwards, and the history records that were opened or closed. A store
applies a step whole or not at all. ``MemoryBackend`` and ``SQLiteBackend`` run these
functions; the others say the same in their own language and are held to it by the tests.

The record handed in needs only the run of the slot in question and the runs that have not
ended; runs that have ended matter to nobody but their own slot. A job without a record gets
one from the first claim or registration that names it, kept whatever the answer is, and from
nothing else. Its floor is the time it was made at, so that there is nothing to catch up. But
jobs are registered before they are claimed: a claim for a slot in time that finds no record
comes to a store that lost it, and the floor is then right below that slot, which would be
lost otherwise.

A claim is decided in this order.

1. *There is a run.* Ended: ``done``. Live lease and this very token: ``won``, lease set anew.
   Live lease: ``running``. Lapsed or released: ``running``, unless the claim is a takeover.
   Then: no attempt left, the run ends as ``lost``, ``done``; another run of the job is busy and
   may not be overlapped, ``overlap``; else the next attempt, ``won``.
2. *There is none.* At or below the floor: ``done``. A takeover, or before the slot: ``none``.
   Later than allowed: ``late``. Another run of the job is busy and may not be overlapped:
   ``overlap``, and the slot is marked as skipped, which a catch-up takes as ``done``. Else the
   first attempt, ``won``; where runs may not overlap, every other unfinished run of the job
   ends in the same step, as ``interrupted`` if it was released, as ``lost`` if it lapsed.

The rules were searched exhaustively with kills, freezes, lost, late and repeated replies, and
pruning at any moment; the looser wordings each had a counter-example.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from anarchon.clock import EPOCH, MILLISECOND, from_millis, to_millis
from anarchon.run import Attempt, Overlap, RunState
from anarchon.store import (
    FINGERPRINT_MEMORY,
    RETENTION,
    Claim,
    ClaimAnswer,
    Finish,
    KnownJob,
    Mode,
    Outcome,
    Prune,
    Registration,
    Release,
    Renewal,
    Terms,
    Unfinished,
)

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class Run:
    """A claimed slot, or the mark of a skipped one.

    ``token`` is that of the current attempt, ``None`` once it was released; ``expires`` is when
    its lease lapses, ``None`` when there is no lease. ``lapses`` counts the attempts that
    lapsed before this one. ``spent`` are the tokens that were released. A run that was
    finished keeps the token that did it, so that asking again hears the same.
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

    def is_busy_at(self, time: datetime) -> bool:
        return not self.state.has_ended and self.expires is not None and self.expires > time


@dataclass(frozen=True, slots=True)
class Seen:
    """When a fingerprint was registered first and last."""

    first: datetime
    last: datetime


@dataclass(frozen=True, slots=True)
class JobRecord:
    """What a store keeps of one job."""

    floor: datetime
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
            return cls(floor=asked.slot - MILLISECOND)
        # whole milliseconds, as every store keeps it: a slot of this very millisecond counts
        # as past, and a moment read back from a store equals the one in memory
        return cls(floor=from_millis(to_millis(time)))


@dataclass(frozen=True, slots=True)
class Step(Generic[A]):
    """An answer and what it changes; ``record`` is the very same object where nothing does."""

    answer: A
    record: JobRecord
    attempts: tuple[Attempt, ...] = ()


def claim(record: JobRecord, asked: Claim, time: datetime) -> Step[ClaimAnswer]:
    run = record.runs.get(asked.slot)
    if run is None or run.state is RunState.SKIPPED:
        return _claim_new(record, run, asked, time)
    if run.state.has_ended:
        return Step(ClaimAnswer(Outcome.DONE), record)
    if run.is_busy_at(time):
        if run.token == asked.token:
            held = replace(run, expires=time + run.terms.lease)
            return Step(_answer(Outcome.WON, held), _with(record, held))
        return Step(_answer(Outcome.RUNNING, run), record)
    # a repeat of a request whose attempt was given back since must not start another
    if asked.mode is not Mode.TAKEOVER or asked.token in run.spent:
        return Step(_answer(Outcome.RUNNING, run), record)
    return _take_over(record, run, asked, time)


def _take_over(record: JobRecord, run: Run, asked: Claim, time: datetime) -> Step[ClaimAnswer]:
    lapsed = run.token is not None
    lapses = run.lapses + lapsed
    if lapsed and lapses >= run.terms.max_attempts:
        ended, closed = _end(asked.job, run, RunState.LOST, time)
        return Step(ClaimAnswer(Outcome.DONE), _with(record, ended), closed)
    blocker = _busy_other(record, run.slot, time) if run.terms.overlap is Overlap.SKIP else None
    if blocker is not None:
        return Step(_overlap(blocker), record)
    closed = (_closed(asked.job, run, RunState.LOST, time),) if lapsed else ()
    fence = _next_fence(record, time)
    taken = replace(
        run,
        state=run.terms.begins_as,
        attempt=run.attempt + 1,
        lapses=lapses,
        token=asked.token,
        expires=time + run.terms.lease,
        instance=asked.instance,
        fence=fence,
        started=time,
    )
    return Step(
        _answer(Outcome.WON, taken),
        replace(_with(record, taken), fence=fence),
        (*closed, _opened(asked.job, taken)),
    )


def _claim_new(
    record: JobRecord, mark: Run | None, asked: Claim, time: datetime
) -> Step[ClaimAnswer]:
    if asked.slot <= record.floor:
        return Step(ClaimAnswer(Outcome.DONE), record)
    if asked.mode is Mode.TAKEOVER or time < asked.slot:
        return Step(ClaimAnswer(Outcome.NONE), record)
    if time - asked.slot > asked.within:
        return Step(ClaimAnswer(Outcome.LATE), record)
    if mark is not None and asked.mode is Mode.CATCH_UP:
        return Step(ClaimAnswer(Outcome.DONE), record)
    others: list[Run] = []
    if asked.terms.overlap is Overlap.SKIP:
        blocker = _busy_other(record, asked.slot, time)
        if blocker is not None:
            return _skip(record, mark, asked, blocker, time)
        others = [run for run in record.runs.values() if not run.state.has_ended]
    fence = _next_fence(record, time)
    won = Run(
        slot=asked.slot,
        state=asked.terms.begins_as,
        terms=asked.terms,
        attempt=1,
        lapses=0,
        token=asked.token,
        expires=time + asked.terms.lease,
        instance=asked.instance,
        fence=fence,
        started=time,
    )
    after: JobRecord = record
    closed: list[Attempt] = []
    for other in others:
        state = RunState.INTERRUPTED if other.token is None else RunState.LOST
        ended, attempts = _end(asked.job, other, state, time)
        after = _with(after, ended)
        closed.extend(attempts)
    return Step(
        _answer(Outcome.WON, won),
        replace(_with(after, won), fence=fence),
        (*closed, _opened(asked.job, won)),
    )


def _skip(
    record: JobRecord, mark: Run | None, asked: Claim, blocker: Run, time: datetime
) -> Step[ClaimAnswer]:
    if mark is not None:
        return Step(_overlap(blocker), record)
    skipped = Run(
        slot=asked.slot,
        state=RunState.SKIPPED,
        terms=asked.terms,
        attempt=0,
        lapses=0,
        token=None,
        expires=None,
        instance=asked.instance,
        fence=0,
        started=time,
    )
    shown = _closed(asked.job, skipped, RunState.SKIPPED, time)
    return Step(_overlap(blocker), _with(record, skipped), (shown,))


def renew(record: JobRecord, asked: Renewal, time: datetime) -> Step[bool]:
    run = record.runs.get(asked.slot)
    if run is None or run.token != asked.token or not run.is_busy_at(time):
        return Step(False, record)
    return Step(True, _with(record, replace(run, expires=time + run.terms.lease)))


def finish(record: JobRecord, asked: Finish, time: datetime) -> Step[bool]:
    run = record.runs.get(asked.slot)
    if run is None or run.token != asked.token:
        return Step(False, record)
    if run.state.has_ended:
        return Step(True, record)
    ended = replace(run, state=asked.state, expires=None)
    closed = _closed(asked.job, run, asked.state, time, asked.detail)
    return Step(True, _with(record, ended), (closed,))


def release(record: JobRecord, asked: Release, time: datetime) -> Step[bool]:
    run = record.runs.get(asked.slot)
    if run is None or run.token != asked.token or run.state.has_ended:
        return Step(run is not None and asked.token in run.spent, record)
    freed = replace(run, token=None, expires=None, spent=(*run.spent, asked.token))
    if asked.begun and run.terms.max_attempts == 1:
        freed = replace(freed, state=RunState.INTERRUPTED)
    closed = _closed(asked.job, run, RunState.INTERRUPTED, time)
    return Step(True, _with(record, freed), (closed,))


def register(record: JobRecord, asked: Registration, time: datetime) -> Step[KnownJob]:
    """Note that an instance knows the job so; the record is to be made first if there is none."""
    known = record.seen.get(asked.fingerprint, Seen(time, time))
    remembered = {
        fingerprint: seen
        for fingerprint, seen in record.seen.items()
        if time - seen.last < FINGERPRINT_MEMORY
    }
    others = tuple(
        (fingerprint, seen.last)
        for fingerprint, seen in sorted(remembered.items())
        if fingerprint != asked.fingerprint
    )
    unfinished = tuple(
        Unfinished(run.slot, run.attempt, run.is_busy_at(time), run.instance)
        for run in sorted(record.runs.values(), key=lambda run: run.slot)
        if not run.state.has_ended
    )
    remembered[asked.fingerprint] = Seen(known.first, time)
    return Step(KnownJob(known.first, others, unfinished), replace(record, seen=remembered))


def prune_up_to(asked: Prune, surplus: datetime | None, time: datetime) -> datetime:
    """Return up to which slot, inclusive, a job's past may go.

    ``surplus`` is the slot of the newest attempt that ``asked.keep`` has no room for.
    """
    return min(max(surplus or EPOCH, time - RETENTION), time - asked.spare)


def prune(record: JobRecord, up_to: datetime) -> Step[tuple[datetime, ...]]:
    """Drop the runs up to a slot that have ended; answer their slots, whose attempts go too."""
    gone = {slot for slot, run in record.runs.items() if slot <= up_to and run.state.has_ended}
    if not gone:
        return Step((), record)
    kept = {slot: run for slot, run in record.runs.items() if slot not in gone}
    return Step(tuple(sorted(gone)), replace(record, runs=kept, floor=max(record.floor, *gone)))


def forget(job: str, record: JobRecord, time: datetime) -> Step[None]:
    """End as ``lost`` what has been unfinished, and not busy, for longer than ``RETENTION``."""
    after: JobRecord = record
    closed: list[Attempt] = []
    for run in record.runs.values():
        if run.state.has_ended or run.is_busy_at(time) or time - run.slot <= RETENTION:
            continue
        ended, attempts = _end(job, run, RunState.LOST, time)
        after = _with(after, ended)
        closed.extend(attempts)
    return Step(None, after, tuple(closed))


def _busy_other(record: JobRecord, slot: datetime, time: datetime) -> Run | None:
    busy = (run for run in record.runs.values() if run.slot != slot and run.is_busy_at(time))
    return min(busy, key=lambda run: run.slot, default=None)


def _next_fence(record: JobRecord, time: datetime) -> int:
    # the time keeps it growing even after the store lost the record
    return max(record.fence + 1, to_millis(time))


def _with(record: JobRecord, run: Run) -> JobRecord:
    return replace(record, runs={**record.runs, run.slot: run})


def _end(job: str, run: Run, state: RunState, time: datetime) -> tuple[Run, tuple[Attempt, ...]]:
    """End a run that its own token did not end, and its current attempt if it has one."""
    ended = replace(run, state=state, token=None, expires=None)
    # the attempt of a released run was closed when it was released
    return ended, () if run.token is None else (_closed(job, run, state, time),)


def _opened(job: str, run: Run) -> Attempt:
    return Attempt(job, run.slot, run.attempt, run.state, run.instance, run.fence, run.started)


def _closed(
    job: str, run: Run, state: RunState, time: datetime, detail: str | None = None
) -> Attempt:
    return Attempt(
        job,
        run.slot,
        run.attempt,
        state,
        run.instance,
        run.fence,
        run.started,
        ended=time,
        detail=detail,
    )


def _answer(outcome: Outcome, run: Run) -> ClaimAnswer:
    return ClaimAnswer(
        outcome,
        attempt=run.attempt,
        fence=run.fence,
        lease=run.terms.lease,
        holder=run.instance,
    )


def _overlap(blocker: Run) -> ClaimAnswer:
    return ClaimAnswer(Outcome.OVERLAP, holder=blocker.instance, blocker=blocker.slot)
