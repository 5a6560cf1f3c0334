"""From a claim that was won to the record of how it ended.

The heartbeats go on until the end is stored, however long the store is away. The store has
the last word: a finish it refuses means that somebody else was given the run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

from anarchon.asking import Answered
from anarchon.errors import StoreError
from anarchon.events import EventKind
from anarchon.job import Job, Kind
from anarchon.keeper import Held
from anarchon.run import RunContext, RunState
from anarchon.scheduler.actions import Ending, Work, publish, run_coroutine, run_on_thread
from anarchon.scheduler.core import SchedulerCore
from anarchon.scheduler.room import Room
from anarchon.store import ClaimAnswer, Finish, Release

_ENDED = {
    RunState.SUCCESS: EventKind.SUCCESS,
    RunState.PUBLISHED: EventKind.PUBLISHED,
    RunState.FAILED: EventKind.FAILURE,
}


class Executor:
    """Carries out attempts and records how they ended."""

    def __init__(self, core: SchedulerCore, *, max_threads: int, max_publishing: int) -> None:
        self._core = core
        self._threads = ThreadPoolExecutor(max_threads, "anarchon-job")
        # one thread: a broker's producer is not to be shared, and one is as fast as four
        self._publisher = ThreadPoolExecutor(1, "anarchon-publish")
        self._rooms = {
            Kind.COROUTINE: Room(None, core.clock),
            Kind.THREAD: Room(max_threads, core.clock),
            Kind.PUBLISH: Room(max_publishing, core.clock),
        }
        self._coroutines: set[asyncio.Future[Any]] = set()
        self._on_threads: set[asyncio.Future[Any]] = set()
        self._under_way: dict[str, RunContext] = {}
        self._grace_is_over = False

    def room_of(self, job: Job) -> Room:
        """Return the places that the runs of this job take."""
        return self._rooms[job.kind]

    def under_way(self) -> tuple[RunContext, ...]:
        """Return the attempts that are carried out right now."""
        return tuple(self._under_way.values())

    async def carry_out(
        self, job: Job, held: Held, won: Answered[ClaimAnswer], within: timedelta
    ) -> bool:
        """Do the work of a won claim and record its end; tell whether the run is settled.

        It is not when it was released, or lost: somebody has to watch it then. Takes over the
        place in ``room_of(job)``.
        """
        core, answer = self._core, won.answer
        assert answer.lease is not None, "a won claim tells its lease"
        core.keeper.grant(held, answer.lease, won.asked_at)
        leave = self.room_of(job).leave
        try:
            if core.is_stopping or not held.is_trusted_at(core.clock.monotonic()):
                leave()
                ending = Ending(RunState.INTERRUPTED, begun=False)
            else:
                ctx = self._begin(job, held, answer)
                self._under_way[held.token] = ctx
                ending = await self._act(Work(job, ctx, held, within), leave)
            held.over = True
            # from here on the lease is kept until the end is stored
            held.renew_until = float("inf")
            if ending.state is RunState.INTERRUPTED:
                await self._give_back(job, held, answer.attempt, ending)
                return False
            return await self._record(job, held, answer.attempt, ending)
        finally:
            # a lease that was renewed after a mistake of ours would keep the run from others
            core.keeper.drop(held)
            self._under_way.pop(held.token, None)

    def _begin(self, job: Job, held: Held, answer: ClaimAnswer) -> RunContext:
        core = self._core
        deadline = None
        if job.timeout is not None:
            deadline = core.now() + job.timeout
            # a body that outlives its timeout must not keep others from the run
            limit = job.timeout + held.heartbeat
            held.renew_until = core.clock.monotonic() + limit.total_seconds()
        ctx = RunContext(
            job=job.name,
            slot=held.slot,
            attempt=answer.attempt,
            fence=answer.fence,
            token=held.token,
            instance=core.instance,
            namespace=core.namespace,
            deadline=deadline,
            signal=held.signal,
        )
        if answer.attempt > 1:
            core.emit(EventKind.TAKEOVER, job.name, slot=held.slot, attempt=answer.attempt)
        core.emit(EventKind.START, job.name, slot=held.slot, attempt=answer.attempt)
        return ctx

    async def _act(self, work: Work, leave: Callable[[], None]) -> Ending:
        if work.job.kind is Kind.THREAD:
            return await run_on_thread(self._core, work, self._threads, leave, self._on_threads)
        try:
            if work.job.kind is Kind.PUBLISH:
                return await publish(self._core, work, self._publisher)
            return await run_coroutine(self._core, work, self._coroutines)
        finally:
            leave()

    async def _record(self, job: Job, held: Held, attempt: int, ending: Ending) -> bool:
        core = self._core
        finish = Finish(job.name, held.slot, held.token, ending.state, ending.detail)
        try:
            accepted = await core.asking.finish(
                finish, deadline=held.heartbeat.total_seconds(), give_up=self._may_give_up
            )
        except StoreError as error:
            self._not_stored(job, held, attempt, "its end was not recorded", error)
            return False
        if not accepted.answer:
            core.emit(
                EventKind.LEASE_LOST,
                job.name,
                slot=held.slot,
                attempt=attempt,
                detail=f"the end as {ending.state} was refused: the run is another's",
            )
            return False
        core.emit(
            _ENDED[ending.state],
            job.name,
            slot=held.slot,
            attempt=attempt,
            reason="repeated" if ending.repeated else None,
            detail=None if ending.error is not None else ending.detail,
            error=ending.error,
        )
        return True

    async def _give_back(self, job: Job, held: Held, attempt: int, ending: Ending) -> None:
        """Release a lease, so that a backup need not wait for it to lapse."""
        core = self._core
        reason = held.signal.reason
        if reason is not None:
            core.emit(
                EventKind.INTERRUPTED,
                job.name,
                slot=held.slot,
                attempt=attempt,
                reason=reason,
                error=ending.error,
            )
        release = Release(job.name, held.slot, held.token, ending.begun)
        try:
            accepted = await core.asking.release(
                release, deadline=held.heartbeat.total_seconds(), give_up=self._may_give_up
            )
        except StoreError as error:
            self._not_stored(job, held, attempt, "not handed over; it will lapse", error)
            return
        if not accepted.answer and reason == "lease_lost":
            core.emit(EventKind.LEASE_LOST, job.name, slot=held.slot, attempt=attempt)
        # a run of one attempt that had begun has ended with it, and nobody takes it over
        elif accepted.answer and not (ending.begun and job.max_attempts == 1):
            core.emit(EventKind.HANDOVER, job.name, slot=held.slot, attempt=attempt)

    def _not_stored(
        self, job: Job, held: Held, attempt: int, detail: str, error: StoreError
    ) -> None:
        self._core.emit(
            EventKind.ERROR,
            job.name,
            slot=held.slot,
            attempt=attempt,
            detail=detail,
            error=error,
        )

    def _may_give_up(self) -> bool:
        return self._grace_is_over

    def interrupt(self) -> None:
        """Tell every attempt under way to stop."""
        for ctx in self.under_way():
            ctx.signal.set("stop")

    def end(self) -> None:
        """Cancel the coroutines that are still under way, and ask a silent store no longer.

        A thread cannot be ended: its lease is kept as long as it runs.
        """
        self._grace_is_over = True
        for body in list(self._coroutines):
            body.cancel()

    def is_body(self, task: asyncio.Task[Any] | None) -> bool:
        """Tell whether a task is a handler under way."""
        return task in self._coroutines

    async def bodies_ended(self) -> None:
        """Wait for the handlers that are still under way."""
        while bodies := self._coroutines | self._on_threads:
            await asyncio.wait(bodies)

    async def release_all(self) -> None:
        """Release every lease held here, once, though what holds it still runs."""
        self._grace_is_over = True
        releases = (
            self._core.asking.release(
                Release(held.job, held.slot, held.token),
                deadline=held.heartbeat.total_seconds(),
                give_up=self._may_give_up,
            )
            for held in self._core.keeper.held()
        )
        await asyncio.gather(*releases, return_exceptions=True)

    def close(self) -> None:
        """Let the threads go that nothing runs on."""
        self._threads.shutdown(wait=False)
        self._publisher.shutdown(wait=False)
