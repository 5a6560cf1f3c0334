"""One life of a scheduler, from start to stop: the loop that fires slots, and what ends with it."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from anarchon.claim_store import AnyBackend, ClaimBackend
from anarchon.clock import Bell, Clock, growing_pauses
from anarchon.errors import OutcomeUnknown, StoreError, StoreUnavailable
from anarchon.events import EventKind
from anarchon.job import Job
from anarchon.scheduler.by_claims import ByClaims
from anarchon.scheduler.by_leases import ByLeases
from anarchon.scheduler.core import Callback, SchedulerCore
from anarchon.scheduler.dealings import Dealings
from anarchon.scheduler.timers import Broken, Due, JobTimers
from anarchon.store import FINGERPRINT_MEMORY
from anarchon.store_time import StoreTime

log = logging.getLogger("anarchon.scheduler")

#: The loop looks at the clock at least so often: clocks are set, machines are suspended.
LONGEST_SLEEP = 60.0
#: The first time soon enough for a process that is restarted often.
_FIRST_UPKEEP, _UPKEEP = timedelta(minutes=10), FINGERPRINT_MEMORY / 2
_LAST_WORD = 5.0
_PAUSES = 0.5, 5.0


class Life:
    """The parts of a running scheduler, wired up; made anew for every start."""

    def __init__(
        self,
        backend: AnyBackend,
        clock: Clock,
        jobs: dict[str, Job],
        *,
        namespace: str,
        instance: str,
        callbacks: dict[EventKind, list[Callback]],
        max_threads: int,
        max_publishing: int,
    ) -> None:
        self._jobs = jobs
        self._clock = clock
        self.loop = asyncio.get_running_loop()
        self.core = SchedulerCore(namespace, instance, clock, StoreTime(clock))
        self.core.callbacks = callbacks
        self.dealings: Dealings
        if isinstance(backend, ClaimBackend):
            self.dealings = ByClaims(
                lambda: backend.connect(namespace),
                self.core,
                back_after_outage=self._after_outage,
                max_threads=max_threads,
                max_publishing=max_publishing,
            )
        else:
            self.dealings = ByLeases(
                lambda: backend.connect(namespace),
                self.core,
                recover=self._recover,
                back_after_outage=self._after_outage,
                max_threads=max_threads,
                max_publishing=max_publishing,
            )
        self.executor = self.dealings.executor
        self._timers = JobTimers()
        self._rearmed = Bell()
        # the sleep until the next slot was measured by the time we believed until then
        self.core.time.when_set = self._rearmed.set
        self._background: list[asyncio.Task[None]] = []
        #: A gap longer than this may have cost a lease.
        self._shortest_lease = min(
            (job.lease.total_seconds() for job in jobs.values()), default=15.0
        )
        self._begun: set[str] = set()
        self._to_recover: dict[str, Job] = {}
        self._is_recovering = False
        self.is_loaded = False
        self.last_woke = clock.monotonic()

    async def start(self) -> None:
        """Recover and start firing; a store that is away is waited for in the background.

        Raises ``SchemaMismatch`` and whatever else the store will not get over by itself.
        """
        self.dealings.start()
        try:
            await self._begin_all()
        except (StoreUnavailable, OutcomeUnknown):
            if not self.core.is_stopping:
                self._background.append(
                    asyncio.create_task(self._begin_when_back(), name="anarchon-begin")
                )
        except BaseException:
            await self.stop(timedelta(0))
            raise
        if self.core.is_stopping:
            return  # stopped while it was starting
        self._background.append(asyncio.create_task(self._fire(), name="anarchon-timers"))
        self._background.append(asyncio.create_task(self.dealings.watch(), name="anarchon-watch"))
        self._background.append(asyncio.create_task(self._keep_up(), name="anarchon-upkeep"))

    def adopt(self, job: Job) -> None:
        """Take in a job that was declared while running, beside the caller."""
        if not self.core.is_stopping:
            self.core.spawn(self._adopt(job), f"anarchon-adopt-{job.name}")

    async def _adopt(self, job: Job) -> None:
        self._shortest_lease = min(self._shortest_lease, job.lease.total_seconds())
        pauses = growing_pauses(*_PAUSES)
        with self.core.droppable():
            # before everything is loaded, the start takes it in
            while self.is_loaded and job.name not in self._begun:
                try:
                    self._begun.add(job.name)
                    await self._begin([job])
                except (StoreUnavailable, OutcomeUnknown):
                    self._begun.discard(job.name)
                    await self._clock.sleep(next(pauses))
        self._rearmed.set()

    def is_part(self, task: asyncio.Task[Any] | None) -> bool:
        """Tell whether a stop would wait for this task."""
        return self.core.spawned(task) or self.executor.is_body(task)

    def _all_jobs(self) -> Sequence[Job]:
        return tuple(self._jobs.values())

    async def _begin(self, jobs: Sequence[Job]) -> None:
        # the timers go on where recovery ended: no slot falls between, however long this takes
        self._tell_broken(self._timers.start(jobs, await self.dealings.begin(jobs)))

    async def _begin_all(self) -> None:
        # without any jobs, too: whether the store answers shows now, not at the first slot
        left = self._all_jobs()
        while left or not self.is_loaded:
            await self._begin(left)
            self._begun.update(job.name for job in left)
            # a job may be declared while the store answers for those before it
            left = [job for job in self._all_jobs() if job.name not in self._begun]
            self.is_loaded = not left

    async def _begin_when_back(self) -> None:
        pauses = growing_pauses(*_PAUSES)
        while not self.is_loaded:
            await self._clock.sleep(next(pauses))
            try:
                await self._begin_all()
            except (StoreUnavailable, OutcomeUnknown):
                continue
            except StoreError:
                log.exception("the store refuses to be used; nothing is scheduled")
                pauses = growing_pauses(LONGEST_SLEEP, _PAUSES[1])
        self._rearmed.set()

    async def _fire(self) -> None:
        while True:
            try:
                await self._fire_and_sleep()
            except Exception:
                log.exception("internal error while firing; the timers go on")
                await self._clock.sleep(1.0)

    async def _fire_and_sleep(self) -> None:
        self._rearmed.clear()
        self.last_woke = self._clock.monotonic()
        handed_out = self._due()
        for due in handed_out:
            self._hand_out(due)
        # somebody may have started what was jumped over here, and nobody else may watch it
        missed = [due.job for due in handed_out if due.missed]
        if missed:
            self._recover(missed)
        wakes_at = self._timers.wakes_at()
        delay = LONGEST_SLEEP
        if wakes_at is not None:
            delay = min(max((wakes_at - self.core.now()).total_seconds(), 0.0), delay)
        asleep = self._clock.monotonic()
        await self._clock.wait(self._rearmed, delay)
        gap = self._clock.monotonic() - asleep - delay
        if gap > self._shortest_lease:
            log.warning("this process did not run for %.1f s; looking for what it missed", gap)
            self._recover(self._all_jobs())

    def _due(self) -> list[Due]:
        due, broken = self._timers.due(self.core.now())
        self._tell_broken(broken)
        return due

    def _tell_broken(self, broken: Broken) -> None:
        for job, error in broken:
            log.error("schedule failed: job=%s", job.name, exc_info=error)
            self.core.emit(
                EventKind.ERROR,
                job.name,
                detail="its schedule failed; the job is not scheduled any more",
                error=error,
            )

    def _hand_out(self, due: Due) -> None:
        if due.missed:
            self.core.emit(
                EventKind.SKIP, due.job.name, slot=due.slot, reason="missed", count=due.missed
            )
        self.dealings.fire(due)

    def _after_outage(self, seconds: float) -> None:
        if self.is_loaded and seconds > self._shortest_lease:
            self._recover(self._all_jobs())

    def _recover(self, jobs: Sequence[Job]) -> None:
        """Recover these jobs as soon as the store answers, beside the caller."""
        self._to_recover.update((job.name, job) for job in jobs)
        if not self._is_recovering and not self.core.is_stopping:
            self._is_recovering = True
            self.core.spawn(self._recover_all(), "anarchon-recovery")

    async def _recover_all(self) -> None:
        pauses = growing_pauses(*_PAUSES)
        try:
            with self.core.droppable():
                while self._to_recover:
                    jobs, self._to_recover = self._to_recover, {}
                    try:
                        await self._recover_some(tuple(jobs.values()))
                    except (StoreUnavailable, OutcomeUnknown):
                        self._to_recover = {**jobs, **self._to_recover}
                    # also in between: a job whose claim the store refuses is back here at once
                    await self._clock.sleep(next(pauses))
        finally:
            self._is_recovering = False

    async def _recover_some(self, jobs: Sequence[Job]) -> None:
        try:
            await self.dealings.after_gap(jobs)
        except (StoreUnavailable, OutcomeUnknown):
            raise
        except StoreError as error:
            # refused as a whole: the job that poisons the call must not cost the others theirs
            if len(jobs) == 1:
                log.error("not recovered: job=%s: %s", jobs[0].name, error)
                return
            middle = len(jobs) // 2
            await self._recover_some(jobs[:middle])
            await self._recover_some(jobs[middle:])

    async def _keep_up(self) -> None:
        pause = _FIRST_UPKEEP
        while True:
            await self._clock.sleep(pause.total_seconds() * random.uniform(0.5, 1.0))
            pause = _UPKEEP
            try:
                await self.dealings.keep_up(self._all_jobs())
            except StoreError as error:
                log.warning("upkeep failed: %s; tried again later", error)

    async def stop(self, grace: timedelta) -> None:
        """End what runs here and hand it over; returns when nothing of ours runs any more."""
        core = self.core
        core.is_stopping = True
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await self.dealings.stop_looking()
        core.drop_waiting()
        self.executor.drop_waiting()
        self.executor.interrupt()
        if not await core.settle(grace.total_seconds()):
            self.executor.end()
            await self._wait_for_bodies()
            await core.settle(_LAST_WORD)
        await self.dealings.calling.close()
        if not await core.settle(_LAST_WORD):
            core.cancel_rest()
            await core.settle(_LAST_WORD)
        await self.dealings.stop()

    async def _wait_for_bodies(self) -> None:
        left = self.executor.under_way()
        if left:
            log.warning(
                "still running after the grace period: %s", ", ".join(ctx.job for ctx in left)
            )
        await self.executor.bodies_ended()
