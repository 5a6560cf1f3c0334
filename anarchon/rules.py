"""The protocol, as pure functions on the record of one job.

Each function takes the record and the store's time and returns a ``Step``: the answer, the
record as it is afterwards, and the history records that changed. A store applies a step
whole or not at all. What is special to a published run that is followed to its end stands in
``anarchon.tracked``; a record is ``anarchon.record``'s. ``MemoryBackend`` and
``SQLiteBackend`` run these functions; the others say the same in their own language and are
held to it by the tests.

The record handed in needs only the run of the slot in question and the runs that have not
ended; runs that have ended matter to nobody but their own slot. A job without a record gets
one from the first claim or registration that names it, kept whatever the answer is, and from
nothing else. Its floor is the time it was made at, so that there is nothing to catch up. But
jobs are registered before they are claimed: a claim for a slot in time that finds no record
comes to a store that lost it, and the floor is then right below that slot, which would be
lost otherwise.

Some schedules cannot tell their slots beforehand, only whether one is due by now, given the one
before. Each instance then finds another moment for what is one slot. So it names the newest
slot it knows of, and its own counts only as long as no newer one was decided: of all slots that
follow one, the first claimed is the slot. That it was skipped decides it as well,
or each later look would find one more to skip.

A claim is decided in this order.

1. *There is a run.* Ended: ``done``. Past its start deadline without a lease: the run ends as
   ``expired``, ``done``. Live lease and this very token, and not yet begun by a worker:
   ``won``, lease set anew. Busy, by a live lease or in the broker: ``running``. Lapsed or
   released: ``running``, unless the claim is a takeover, and one whose token never had an
   attempt of this run. Then: no attempt left, the run ends as ``lost``, ``done``; another run of
   the job is busy and may not be overlapped, ``overlap``; else the next attempt, ``won``.
2. *There is none.* At or below the floor, or found by a slot that is not the newest one any
   more: ``done``. A takeover, or before the slot: ``none``. Later than allowed, or than its
   work may begin: ``late``. Another run of the job is busy and may not be overlapped:
   ``overlap``, and the slot is marked as skipped, which a catch-up takes as ``done``. Else the
   first attempt, ``won``; where runs may not overlap, every other unfinished run of the job ends
   in the same step, as ``interrupted`` if it was released, as ``lost`` if it lapsed, as
   ``expired`` if it is past its start deadline.

``tests/simulation`` searches these very functions breadth-first, in small worlds and there
exhaustively: kills, freezes, lost, late and repeated answers, releases, pruning at any moment,
and for tracked runs what broker and workers do. Each looser wording it knows has a
counter-example. Change a rule only with that search.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from anarchon import tracked
from anarchon.clock import EPOCH, to_millis
from anarchon.record import JobRecord, Run, Seen, Step, closed, end, opened
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
    Unfinished,
)


def claim(record: JobRecord, asked: Claim, time: datetime) -> Step[ClaimAnswer]:
    run = record.runs.get(asked.slot)
    if run is None or run.state is RunState.SKIPPED:
        return _claim_new(record, run, asked, time)
    if run.state.has_ended:
        return Step(ClaimAnswer(Outcome.DONE), record)
    if run.is_overdue_at(time):
        return _ended(record, run, asked, RunState.EXPIRED, time)
    if run.is_busy_at(time):
        # its publisher's again only as long as no worker has it
        if run.is_held_by(asked.token):
            held = replace(run, expires=time + run.terms.lease)
            return Step(_answer(Outcome.WON, held), record.having(held))
        return Step(_answer(Outcome.RUNNING, run), record)
    # a request that arrives again after its attempt was given back, or lapsed, must not start
    # another: who made it may still work under that token
    if asked.mode is not Mode.TAKEOVER or run.has_had(asked.token):
        return Step(_answer(Outcome.RUNNING, run), record)
    return _take_over(record, run, asked, time)


def _take_over(record: JobRecord, run: Run, asked: Claim, time: datetime) -> Step[ClaimAnswer]:
    lapsed = run.token is not None
    lapses = run.lapses + lapsed
    if lapsed and lapses >= run.terms.max_attempts:
        return _ended(record, run, asked, RunState.LOST, time)
    blocker = _busy_other(record, run.slot, time) if run.terms.overlap is Overlap.SKIP else None
    if blocker is not None:
        return Step(_overlap(blocker), record)
    gone = (closed(asked.job, run, RunState.LOST, time),) if lapsed else ()
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
        spent=run.spent_by_lapse(),
        deadline=tracked.next_deadline(run, time),
        retry=0,
        nonce=None,
        holder=None,
        message=None,
        begun=None,
    )
    return Step(
        _answer(Outcome.WON, taken),
        replace(record.having(taken), fence=fence),
        (*gone, opened(asked.job, taken)),
    )


def _ended(
    record: JobRecord, run: Run, asked: Claim, state: RunState, time: datetime
) -> Step[ClaimAnswer]:
    ended, gone = end(asked.job, run, state, time)
    return Step(ClaimAnswer(Outcome.DONE), record.having(ended), gone)


def _claim_new(
    record: JobRecord, mark: Run | None, asked: Claim, time: datetime
) -> Step[ClaimAnswer]:
    deadline = tracked.first_deadline(asked.terms, asked.slot)
    if asked.slot <= record.floor or _is_stale(record, asked):
        return Step(ClaimAnswer(Outcome.DONE), record)
    if asked.mode is Mode.TAKEOVER or time < asked.slot:
        return Step(ClaimAnswer(Outcome.NONE), record)
    if time - asked.slot > asked.within or (deadline is not None and deadline <= time):
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
        deadline=deadline,
    )
    after: JobRecord = record
    gone: list[Attempt] = []
    for other in others:
        ended, attempts = end(asked.job, other, _fate(other, time), time)
        after = after.having(ended)
        gone.extend(attempts)
    return Step(
        _answer(Outcome.WON, won),
        replace(after.having_new(won), fence=fence),
        (*gone, opened(asked.job, won)),
    )


def _is_stale(record: JobRecord, asked: Claim) -> bool:
    return asked.after is not None and not record.newest <= asked.after < asked.slot


def _fate(run: Run, time: datetime) -> RunState:
    """Return how an unfinished run ends that a newer one replaces."""
    if run.is_overdue_at(time):
        return RunState.EXPIRED
    return RunState.INTERRUPTED if run.token is None else RunState.LOST


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
    shown = closed(asked.job, skipped, RunState.SKIPPED, time)
    return Step(_overlap(blocker), record.having_new(skipped), (shown,))


def renew(record: JobRecord, asked: Renewal, time: datetime) -> Step[bool]:
    if asked.waiting is not None:
        return tracked.mark(record, asked, asked.waiting, time)
    run = record.runs.get(asked.slot)
    if run is None or run.token != asked.token or run.holder != asked.holder:
        return Step(False, record)
    if not run.is_leased_at(time):
        return Step(False, record)
    return Step(True, record.having(replace(run, expires=time + run.terms.lease)))


def finish(record: JobRecord, asked: Finish, time: datetime) -> Step[bool]:
    run = record.runs.get(asked.slot)
    if run is None or not run.is_held_by(asked.token, asked.nonce):
        return Step(False, record)
    if run.state.has_ended:
        return Step(True, record)
    ended = replace(run, state=asked.state, expires=None)
    shown = closed(asked.job, run, asked.state, time, asked.detail)
    return Step(True, record.having(ended), (shown,))


def release(record: JobRecord, asked: Release, time: datetime) -> Step[bool]:
    run = record.runs.get(asked.slot)
    if run is None or run.state.has_ended or not run.is_held_by(asked.token):
        return Step(run is not None and run.was_released_by(asked.token), record)
    freed = replace(run, token=None, expires=None, spent=(*run.spent, asked.token))
    if asked.begun and run.terms.max_attempts == 1:
        freed = replace(freed, state=RunState.INTERRUPTED)
    shown = closed(asked.job, run, RunState.INTERRUPTED, time)
    return Step(True, record.having(freed), (shown,))


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
    return Step(
        KnownJob(known.first, record.newest, others, unfinished), replace(record, seen=remembered)
    )


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
    """End as ``lost``, or ``expired``, what is unfinished and not busy after ``RETENTION``."""
    after: JobRecord = record
    gone: list[Attempt] = []
    for run in record.runs.values():
        if run.state.has_ended or run.is_busy_at(time) or time - run.slot <= RETENTION:
            continue
        state = RunState.EXPIRED if run.is_overdue_at(time) else RunState.LOST
        ended, attempts = end(job, run, state, time)
        after = after.having(ended)
        gone.extend(attempts)
    return Step(None, after, tuple(gone))


def _busy_other(record: JobRecord, slot: datetime, time: datetime) -> Run | None:
    busy = (run for run in record.runs.values() if run.slot != slot and run.is_busy_at(time))
    return min(busy, key=lambda run: run.slot, default=None)


def _next_fence(record: JobRecord, time: datetime) -> int:
    # the time keeps it growing even after the store lost the record
    return max(record.fence + 1, to_millis(time))


def _answer(outcome: Outcome, run: Run) -> ClaimAnswer:
    return ClaimAnswer(
        outcome,
        attempt=run.attempt,
        fence=run.fence,
        lease=run.terms.lease,
        holder=run.instance,
        waits=outcome is Outcome.RUNNING and run.state is RunState.QUEUED,
        start_by=run.deadline if outcome is Outcome.WON else None,
    )


def _overlap(blocker: Run) -> ClaimAnswer:
    return ClaimAnswer(Outcome.OVERLAP, holder=blocker.instance, blocker=blocker.slot)
