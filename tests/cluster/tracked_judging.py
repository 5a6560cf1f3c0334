"""Judges chaos among tracked runs: what ran, against what is promised of it.

What must not be is judged from what the workers wrote down. *Excused* is

- work beside another's (G3) of a worker that was killed, frozen or cut off from the store for so
  long that its lease had lapsed when the other was claimed: asked of the checker's own rules;
- a start after that of a later attempt (G4) in a process that was frozen between the store's yes
  and its own first line;
- an end that the history does not have, by what befell the worker, or the store, until it was due.

What must be: each slot was sent, within the checker's bounds, or another run of its job was busy;
what a worker has received, and nothing befell it, was begun or superseded; what gave up for a
retry, and nothing befell anybody, was begun again; what a killed worker
left was sent again within lease + 2 heartbeats + jitter (G6); each attempt has ended in the history
as its task did; and after the calm at the end nothing is unfinished that nobody watches. A broker
gives back what a dead client had; what it had on the way to one may be gone with it, and then
the run ends at its start deadline.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from anarchon.clock import rfc3339
from anarchon.run import Attempt, Overlap, RunState
from anarchon.testing.demands import Demands, Owed
from anarchon.testing.docket import Docket
from anarchon.testing.evidence import Body
from anarchon.testing.harms import Cause, Harm, Harms
from anarchon.testing.spans import NEVER
from tests.cluster.judging import PATIENCE
from tests.cluster.tracked_evidence import Sent, TrackedAftermath, WorkerStart
from tests.tracked_starts import Broken, TrackedStart, doubled, out_of_order, overlapping

#: The longest that a task of the project takes, and what it may wait for a place in the pool.
LONGEST_WORK = timedelta(seconds=6)
IN_LINE = LONGEST_WORK + timedelta(seconds=1)
#: A worker that was in trouble with its broker is itself again.
BACK = timedelta(seconds=10)
LONGEST_COUNTDOWN = timedelta(seconds=2)
_WORKING = frozenset({RunState.CLAIMED, RunState.QUEUED, RunState.RUNNING})


@dataclass
class Judged:
    """What was found, and what was looked at."""

    findings: list[str] = field(default_factory=list)
    excused: list[str] = field(default_factory=list)
    #: Slots that somebody had to send, and deliveries that a worker had to begin.
    demanded: int = 0
    begun_in_time: int = 0
    skipped: int = 0
    #: After how long the run of a worker that was killed was sent again.
    takeovers: list[timedelta] = field(default_factory=list)
    bound: timedelta = timedelta(0)

    def say(self, what: str, excuse: object = None) -> None:
        """Note what is wrong, unless there is an excuse."""
        if excuse is None:
            self.findings.append(what)
        else:
            self.excused.append(f"{what}; {excuse}")


def judge(aftermath: TrackedAftermath) -> Judged:
    """Judge everything about one run of chaos."""
    return _Judge(aftermath).judged


class _Judge:
    def __init__(self, aftermath: TrackedAftermath) -> None:
        self.aftermath = aftermath
        self.judged = Judged()
        self.until = aftermath.until
        workers, schedulers = Harms(aftermath.workers), Harms(aftermath.schedulers)
        self._everybody = Harms(aftermath.everybody)
        self._names = {life.instance for life in aftermath.everybody.lives}
        self._of_workers = {
            name: Docket(name, aftermath.workers, workers, PATIENCE) for name in aftermath.jobs
        }
        self._of_schedulers = {
            name: Docket(name, aftermath.schedulers, schedulers, PATIENCE)
            for name in aftermath.jobs
        }
        self._attempts = {(a.job, a.slot, a.attempt): a for a in aftermath.history if a.attempt > 0}
        self._marks = {(a.job, a.slot) for a in aftermath.history if a.attempt == 0}
        self._starts: dict[tuple[str, datetime, int], list[WorkerStart]] = {}
        for start in aftermath.starts:
            self._starts.setdefault((start.job, start.slot, start.attempt), []).append(start)
        self._judge_starts()
        self._judge_fences()
        self._judge_ends()
        self._judge_demands()
        self._judge_deliveries()
        self._judge_retries()
        self._judge_takeovers()

    # ---------------------------------------------------------------- what must not be

    def _judge_starts(self) -> None:
        asked = [start for start in self.aftermath.starts if self.aftermath.asks(start.job)]
        skips = frozenset(
            name for name, job in self.aftermath.jobs.items() if job.overlap is Overlap.SKIP
        )
        for broken in doubled(asked):
            self.judged.say(str(broken))
        for broken in out_of_order(asked):
            self.judged.say(str(broken), self._woke_late(broken.second))
        for broken in overlapping(asked, skips):
            self.judged.say(str(broken), self._zombie(broken) or self._woke_late(broken.second))

    def _woke_late(self, start: TrackedStart) -> Harm | None:
        """Return what kept a process from its first line after the store had said yes."""
        lease = self.aftermath.jobs[start.job].lease
        harms = self._of_workers[start.job].harms.touching(
            start.worker, start.started - PATIENCE, start.started
        )
        long = (h for h in harms if h.cause is Cause.FROZEN and h.end - h.start > lease / 2)
        return next(long, None)

    def _zombie(self, broken: Broken) -> Harm | None:
        """Return what let the first lose its lease before the second was claimed."""
        docket = self._of_workers[broken.first.job]
        # no fence: its lease counts from its beginning, not from its claim
        left = _body(broken.first, fence=0)
        taker = _body(broken.second, fence=broken.second.fence)
        harms = docket.harming(left, broken.second.started)
        return next(
            (h for h in harms if h.cause is not Cause.STOPPED and docket.explains(h, left, taker)),
            None,
        )

    def _judge_fences(self) -> None:
        """G5: no two attempts of a job share a fence; under skip it grows with the starts."""
        owners: dict[tuple[str, int], TrackedStart] = {}
        highest: dict[str, TrackedStart] = {}
        for start in self.aftermath.starts:
            other = owners.setdefault((start.job, start.fence), start)
            if (other.slot, other.attempt) != (start.slot, start.attempt):
                self.judged.say(f"G5: one fence twice: {other}; {start}")
            before = highest.setdefault(start.job, start)
            if start.fence > before.fence:
                highest[start.job] = start
            elif start.fence < before.fence and self._is_kept_apart(start):
                self.judged.say(
                    f"G5: the fence went back: {start}; after {before}", self._woke_late(start)
                )

    def _is_kept_apart(self, start: TrackedStart) -> bool:
        job = self.aftermath.jobs[start.job]
        return job.overlap is Overlap.SKIP and self.aftermath.asks(start.job)

    # ---------------------------------------------------------------- how runs end

    def _judge_ends(self) -> None:
        for key, starts in self._starts.items():
            attempt = self._attempts.get(key)
            if starts[0].started > self.until:
                continue  # the history was asked before
            if attempt is None:
                self.judged.say(f"H1: not in the history: {starts[-1]}")
            elif attempt.fence != starts[-1].fence:
                self.judged.say(f"H1: {_told(attempt)}, but {starts[-1]} had {starts[-1].fence}")
        for key, attempt in self._attempts.items():
            starts = self._starts.get(key, [])
            if attempt.started > self.until:
                continue
            if attempt.state.has_ended:
                self._judge_end(attempt, starts)
            else:
                self._judge_unfinished(attempt, starts)

    def _judge_end(self, attempt: Attempt, starts: list[WorkerStart]) -> None:
        last = starts[-1] if starts else None
        if last is not None and attempt.state == last.outcome:
            assert attempt.ended is not None, "it has ended"
            if attempt.ended > last.busy_until + PATIENCE:
                late = f"H1: recorded late: {_told(attempt)} of {last}"
                self.judged.say(late, self._befell(last, attempt.ended))
        elif attempt.state is RunState.SUCCESS:
            # a message may be ignored by a worker that never lets its body run: ours are not
            self.judged.say(f"H1: {_told(attempt)}, but what ran was {last}")
        elif last is None or last.outcome == "retried":
            # nobody began what was sent
            self.judged.say(f"lost: {_told(attempt)} of {last}", self._befell_anybody(attempt))
        else:
            # it ended, or died, and the history says something else
            self.judged.say(
                f"end lost: {_told(attempt)} of {last}",
                self._died(last) or self._befell(last, attempt.ended or self.until),
            )

    def _died(self, start: WorkerStart) -> str | None:
        """Tell of the process of a start that was killed beneath a living worker."""
        at = self.aftermath.lost_children.get(f"{start.worker}/{start.pid}")
        ended = start.ended or NEVER
        if at is None or ended < at - PATIENCE:
            return None
        return f"its process was killed at {rfc3339(at)}"

    def _befell(self, start: WorkerStart, until: datetime) -> Harm | None:
        """Return what kept a worker from keeping its run, or from having its end recorded."""
        docket = self._of_workers[start.job]
        harms = docket.harming(_body(start, fence=0), until)
        return next((harm for harm in harms if harm.cause is not Cause.STOPPED), None)

    def _befell_anybody(self, attempt: Attempt) -> Harm | None:
        since = attempt.started - BACK
        return self._harm_of_anybody(since, attempt.ended or self.until)

    def _harm_of_anybody(self, since: datetime, until: datetime) -> Harm | None:
        for name in self._names:
            for harm in self._everybody.touching(name, since, until):
                return harm
        return None

    def _judge_unfinished(self, attempt: Attempt, starts: list[WorkerStart]) -> None:
        """Once all was calm for long, nothing is left that nobody watches."""
        job = self.aftermath.jobs[attempt.job]
        soon = job.lease + 2 * job.heartbeat + job.jitter + PATIENCE
        since = max([attempt.started, *(start.ended or start.started for start in starts)])
        match attempt.state:
            case RunState.QUEUED:
                assert job.start_within is not None, "it is tracked"
                bound = job.start_within + LONGEST_COUNTDOWN + soon
            case RunState.RUNNING if starts and starts[-1].busy_until > self.until:
                bound = LONGEST_WORK + soon
            case _:
                bound = soon
        if self.until - since > bound:
            self.judged.say(f"L4: left unfinished: {_told(attempt)}, {starts[-1:]}")

    # ---------------------------------------------------------------- what must be

    def _judge_demands(self) -> None:
        for name, docket in self._of_schedulers.items():
            for slot, owed in Demands(docket).owed.items():
                first = min(self._signs_of(name, slot), default=NEVER)
                if first <= owed.by:
                    self.judged.demanded += 1
                elif docket.skips and self._is_held_back(name, slot, owed):
                    self.judged.skipped += 1
                    if not owed.harms and (name, slot) not in self._marks:
                        self.judged.say(f"G9: skipped and not marked: {name}@{rfc3339(slot)}")
                else:
                    self.judged.demanded += 1
                    self.judged.say(
                        f"missed: {name}@{rfc3339(slot)}: not sent by {rfc3339(owed.by)}:"
                        f" {owed.why}; {first}"
                    )

    def _signs_of(self, name: str, slot: datetime) -> Iterator[datetime]:
        yield from (body.started for body in self._of_schedulers[name].by_slot.get(slot, ()))
        # whoever is killed right after the send has not written it down
        for start in self._starts.get((name, slot, 1), ()):
            yield start.started

    def _is_held_back(self, name: str, slot: datetime, owed: Owed) -> bool:
        """Tell whether another run was busy; a newer one only where this was owed for longer."""
        may_be_newer = bool(owed.harms) or owed.caught_up
        return any(
            a.job == name
            and (a.slot < slot or (may_be_newer and a.slot > slot))
            and a.started <= owed.by
            and (a.ended or NEVER) >= slot
            for a in self._attempts.values()
        )

    def _judge_deliveries(self) -> None:
        """What a worker received, and nothing befell it, was begun or superseded."""
        sends = {sent.message: sent for sent in self.aftermath.sends}
        begun = {start.message for start in self.aftermath.starts}
        for received in self.aftermath.received:
            sent, by = sends.get(received.message), received.at + IN_LINE + PATIENCE
            if sent is None or by > self.until:
                continue
            since = received.at - BACK
            if any(self._everybody.touching(received.worker, since, by)):
                continue
            self.judged.begun_in_time += 1
            if received.message not in begun and not self._is_superseded(sent, by):
                self.judged.say(f"never begun: {sent}, received {received}")

    def _is_superseded(self, sent: Sent, by: datetime) -> bool:
        later = self._attempts.get((sent.job, sent.slot, sent.attempt + 1))
        attempt = self._attempts.get((sent.job, sent.slot, sent.attempt))
        ended = attempt is not None and attempt.ended is not None and attempt.ended <= by
        return later is not None or ended

    def _judge_retries(self) -> None:
        """What gave up to be retried was begun again, where nothing befell anybody meanwhile."""
        for (name, slot, number), starts in self._starts.items():
            for start in starts:
                if start.outcome != "retried" or start.ended is None:
                    continue
                by = start.ended + LONGEST_COUNTDOWN + 2 * PATIENCE
                if by > self.until or self._harm_of_anybody(start.ended - PATIENCE, by):
                    continue
                self.judged.begun_in_time += 1
                again = any(other.started <= by and other.retry > start.retry for other in starts)
                if not again and (name, slot, number + 1) not in self._attempts:
                    self.judged.say(f"retry never begun: {start}, by {rfc3339(by)}")

    def _judge_takeovers(self) -> None:
        """G6: what a killed worker left is sent again in time, if somebody is able to."""
        killed = {life.instance: life.end for life in self.aftermath.workers_lives if life.killed}
        demands = {name: Demands(docket) for name, docket in self._of_schedulers.items()}
        for (name, slot, number), starts in self._starts.items():
            last, end = starts[-1], killed.get(starts[-1].worker)
            if end is None or last.ended is not None or last.started > end or self._died(last):
                continue
            if not self.aftermath.asks(name):
                continue  # begun without the store's word, it may still wait for a worker there
            docket = self._of_schedulers[name]
            lapsed = Harm(Cause.KILLED, end, end, last.worker)
            bounds = (
                demands[name].next_start(
                    edition,
                    slot,
                    lapses_from=end,
                    held_until=lapsed.held_until(docket.lease),
                    lapses=number,
                    known=[lapsed],
                )
                for edition in docket.editions
            )
            by = min((bound for bound in bounds if bound is not None), default=None)
            if by is None or number >= docket.max_attempts:
                continue
            again = min(
                (b.started for b in docket.by_slot.get(slot, ()) if b.attempt > number),
                default=None,
            )
            job = self.aftermath.jobs[name]
            self.judged.bound = job.lease + 2 * job.heartbeat + job.jitter
            if again is not None:
                self.judged.takeovers.append(again - end)
            if again is None or again > by:
                self.judged.say(f"G6: not taken over by {rfc3339(by)}, but {again}: {last}")


def _body(start: TrackedStart, *, fence: int) -> Body:
    ended = start.busy_until if start.outcome is not None else None
    return Body(
        start.job,
        start.slot,
        start.attempt,
        fence,
        start.worker,
        start.started,
        ended,
        failed=start.outcome != "success",
    )


def _told(attempt: Attempt) -> str:
    ended = None if attempt.ended is None else rfc3339(attempt.ended)
    return (
        f"{attempt.job}@{rfc3339(attempt.slot)} attempt {attempt.attempt} {attempt.state}"
        f" started {rfc3339(attempt.started)} ended {ended} ({attempt.detail})"
    )
