"""What is looked for at start, and after a gap: runs nobody may be watching, and missed slots.

A gap is a time longer than a lease in which this process did not run (suspended, frozen, a
blocked loop) or the store did not answer. Whatever this instance believed before a gap may
be wrong after it, so a gap is treated like a start: what is unfinished is watched or taken
over, and of the missed slots at most the newest is caught up. Nothing older is replayed.
Jobs that the store does not answer for, when it does for others, are recovered once it does.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from typing import TypeAlias

from anarchon.asking import Asking
from anarchon.clock import MILLISECOND, growing_pauses, rfc3339
from anarchon.errors import OutcomeUnknown, StoreError, StoreUnavailable
from anarchon.events import EventKind
from anarchon.job import Job
from anarchon.keeper import Keeper
from anarchon.run import Overlap
from anarchon.scheduler.core import SchedulerCore
from anarchon.scheduler.lease_runner import LeaseRunner
from anarchon.scheduler.timers import Due, allowed_lateness, longest_jitter
from anarchon.store import KnownJob, Mode, Registration, Unfinished

log = logging.getLogger("anarchon.scheduler")

_PAUSES = 0.5, 5.0

_Told: TypeAlias = tuple[Job, Registration]
#: The runs carried out here.
_Held: TypeAlias = Collection[tuple[str, datetime]]
_RecoverOne: TypeAlias = Callable[[Job, KnownJob, datetime, _Held], None]


class Recovery:
    """Brings an instance to what the store knows."""

    def __init__(
        self,
        core: SchedulerCore,
        asking: Asking,
        keeper: Keeper,
        runner: LeaseRunner,
        learn: Callable[[Job, KnownJob], None],
    ) -> None:
        self._core = core
        self._asking = asking
        self._keeper = keeper
        self._runner = runner
        self._learn = learn
        self._warned: set[tuple[str, str]] = set()
        #: What the store did not answer for when it did for others.
        self._left: dict[str, Job] = {}
        self._is_looking_for_left = False

    async def begin(self, jobs: Sequence[Job]) -> datetime:
        """Recover at start; return the store's time at which the timers go on from here.

        Raises what the store raises.
        """
        return await self._recover(jobs, self._begin)

    def _begin(self, job: Job, what: KnownJob, time: datetime, held: _Held) -> None:
        self._see_to(job, what, time, held)
        # of a job that missed nothing and has a slot to come, as nearly all, this says both
        first = job.schedule.next_after(max(what.first_seen, time - job.catch_up))
        if first is not None and first <= time:
            newest = job.schedule.latest_at(time) or first
            self._catch_up(job, newest, time, what.unfinished)
        elif job.run_at_start:
            self._catch_up(job, _first_slot(what), time, what.unfinished)
        elif first is None:
            warn_if_past(job, time, since=what.first_seen)

    async def after_gap(self, jobs: Sequence[Job]) -> None:
        """Recover where the timers run on: they see to what may still start in time."""
        await self._recover(jobs, self._after_gap)

    def _after_gap(self, job: Job, what: KnownJob, time: datetime, held: _Held) -> None:
        self._see_to(job, what, time, held)
        newest = job.schedule.latest_at(time)
        if newest is None or newest <= what.first_seen:
            return
        if time - newest > allowed_lateness(job, newest):
            self._catch_up(job, newest, time, what.unfinished)

    async def find_unwatched(self, jobs: Sequence[Job]) -> None:
        """Register anew, and see to runs that a store may have brought up again."""
        await self._recover(jobs, self._see_to)

    async def _recover(self, jobs: Sequence[Job], recover: _RecoverOne) -> datetime:
        """Recover what the store answers for, and the rest when it does; return its time."""
        time, known, left = await self._register(self._tell(jobs))
        held = frozenset((held.job, held.slot) for held in self._keeper.held())
        for (job, registration), what in known:
            self._warn_of_others(job, registration.fingerprint, what)
            self._learn(job, what)
            try:
                recover(job, what, time, held)
            except Exception as error:
                self._tell_failed(job, error)
        self._left.update((job.name, job) for job in left)
        if self._left and not self._is_looking_for_left:
            log.warning("no answer for some jobs; asked again: jobs=%s", ",".join(self._left))
            self._is_looking_for_left = True
            self._core.spawn(self._recover_left(), "anarchon-recover-left")
        return time

    async def _recover_left(self) -> None:
        pauses = growing_pauses(*_PAUSES)
        with self._core.droppable():
            while self._left:
                await self._core.clock.sleep(next(pauses))
                jobs, self._left = self._left, {}
                try:
                    await self._recover(tuple(jobs.values()), self._begin)
                except StoreError:
                    self._left = {**jobs, **self._left}
        self._is_looking_for_left = False

    def _tell(self, jobs: Sequence[Job]) -> list[_Told]:
        now = self._core.now()
        told: list[_Told] = []
        for job in jobs:
            try:
                told.append((job, Registration(job.name, job.fingerprint(now))))
            except Exception as error:
                self._tell_failed(job, error)
        return told

    async def _register(
        self, told: Sequence[_Told]
    ) -> tuple[datetime, list[tuple[_Told, KnownJob]], list[Job]]:
        """Tell the store how these jobs are known here.

        Returns its time, what it knows, and the jobs that it does not answer for.
        """
        try:
            reply = await self._asking.active([registration for _, registration in told])
        except OutcomeUnknown as error:
            if len(told) == 1 or not error.partly:
                raise
            return await self._register_halves(told, error)
        return reply.time, list(zip(told, reply.answers, strict=True)), []

    async def _register_halves(
        self, told: Sequence[_Told], error: OutcomeUnknown
    ) -> tuple[datetime, list[tuple[_Told, KnownJob]], list[Job]]:
        first: datetime | None = None
        known: list[tuple[_Told, KnownJob]] = []
        left: list[Job] = []
        middle = len(told) // 2
        for half in (told[:middle], told[middle:]):
            try:
                time, some, left_of_it = await self._register(half)
            except (StoreUnavailable, OutcomeUnknown):
                left += [job for job, _ in half]
            else:
                # the timers are to miss nothing that came due since then
                first = first or time
                known += some
                left += left_of_it
        if first is None:
            raise error
        return first, known, left

    def _tell_failed(self, job: Job, error: Exception) -> None:
        detail = "its schedule failed; what it missed is not recovered"
        self._core.emit(EventKind.ERROR, job.name, detail=detail, error=error)

    def _see_to(self, job: Job, what: KnownJob, time: datetime, held: _Held) -> None:
        if not what.unfinished:
            return
        newest = job.schedule.latest_at(time)
        for run in what.unfinished:
            if run.busy and (job.name, run.slot) in held:
                continue  # whoever carries it out here sees to it
            if run.busy:
                self._runner.backups.watch(job, run.slot, was_seen=True)
            elif newest is None or run.slot >= newest or job.overlap is Overlap.ALLOW:
                self._runner.look(job, run.slot, was_seen=True)
            # else a newer slot came due: nothing older runs, the next claim of the job ends it

    def _catch_up(
        self, job: Job, slot: datetime, time: datetime, unfinished: Sequence[Unfinished]
    ) -> None:
        if time - slot >= job.catch_up or any(run.slot == slot for run in unfinished):
            return
        # half of what is left at the most, or the wait itself would make it too late
        left = (job.catch_up - (time - slot)) / 2
        wait = min(longest_jitter(job, slot), left) * random.random()
        self._core.spawn(self._catch_up_soon(job, slot, wait), f"anarchon-catch-up-{job.name}")

    async def _catch_up_soon(self, job: Job, slot: datetime, wait: timedelta) -> None:
        with self._core.droppable():
            await self._core.clock.sleep(wait.total_seconds())
        self._runner.start(Due(job, slot, job.catch_up), Mode.CATCH_UP)

    def _warn_of_others(self, job: Job, here: str, known: KnownJob) -> None:
        for fingerprint, last_seen in known.others:
            if (job.name, fingerprint) in self._warned:
                continue
            self._warned.add((job.name, fingerprint))
            log.warning(
                "two editions of a job are in use, and both run: job=%s here=%s other=%s seen=%s;"
                " a deploy in progress, other time zone data, or another service in this namespace",
                job.name,
                here,
                fingerprint,
                rfc3339(last_seen),
            )


def warn_if_past(job: Job, time: datetime, since: datetime | None = None) -> None:
    """Say so if a job has no slot to come, nor had one since the store first saw it."""
    if job.schedule.next_after(time) is not None:
        return
    newest = job.schedule.latest_at(time)
    if newest is not None and (since is None or newest <= since):
        log.warning("a job that will never run: job=%s: %s is past", job.name, newest)


def _first_slot(known: KnownJob) -> datetime:
    """Return the slot of a run at start: right after the store first saw the job so."""
    # not that moment itself: the floor of a job that it never saw before is there
    return known.first_seen + MILLISECOND
