"""From a claim that was won to how its attempt ended.

What the right to an attempt is, and where its end is written, is the ``Recorder``'s: there is
one for each kind of store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any, Protocol

from anarchon.action import Kind
from anarchon.events import EventKind
from anarchon.gathering import Answered
from anarchon.job import Job
from anarchon.keeper import Held
from anarchon.run import RunContext, RunState, Tracking
from anarchon.scheduler.actions import Ending, Work, publish, run_coroutine, run_on_thread
from anarchon.scheduler.core import SchedulerCore
from anarchon.scheduler.outbox import Outbox
from anarchon.scheduler.room import Room
from anarchon.store import ClaimAnswer


class Recorder(Protocol):
    """The right to an attempt that was won, from the claim to the record of its end."""

    def grant(self, held: Held, won: Answered[ClaimAnswer]) -> None:
        """Take note that a claim was won."""

    def may_start(self, job: Job, held: Held) -> bool:
        """Tell whether the work may begin here and now."""

    def hears_stop(self, kind: Kind) -> bool:
        """Tell whether an attempt of this kind is told to end when the scheduler stops."""

    async def was_begun(self, job: Job, slot: datetime) -> bool | None:
        """Ask whether a worker has begun a tracked slot; raises what the store raises."""

    async def record(
        self, job: Job, held: Held, ctx: RunContext | None, answer: ClaimAnswer, ending: Ending
    ) -> bool:
        """Write how the attempt ended and tell of it; whether the run is settled by that."""

    def let_go(self, held: Held) -> None:
        """Forget an attempt that is over, come what may."""

    async def release_all(self) -> None:
        """Give up every right held here, though what holds it still runs."""


class Executor:
    """Carries out attempts and has it recorded how they ended."""

    def __init__(
        self, core: SchedulerCore, recorder: Recorder, *, max_threads: int, max_publishing: int
    ) -> None:
        self._core = core
        self._recorder = recorder
        self._threads = ThreadPoolExecutor(max_threads, "anarchon-job")
        self.outbox = Outbox(core.clock)
        self._rooms = {
            Kind.COROUTINE: Room(None, core.clock),
            Kind.THREAD: Room(max_threads, core.clock),
            Kind.PUBLISH: Room(max_publishing, core.clock),
        }
        self._coroutines: set[asyncio.Future[Any]] = set()
        self._on_threads: set[asyncio.Future[Any]] = set()
        self._under_way: dict[str, tuple[RunContext, Kind]] = {}

    def room_of(self, job: Job) -> Room:
        """Return the places that the runs of this job take."""
        return self._rooms[job.kind]

    def drop_waiting(self) -> None:
        """Forget what waits for a place."""
        for room in self._rooms.values():
            room.empty()

    def under_way(self) -> tuple[RunContext, ...]:
        """Return the attempts that are carried out right now."""
        return tuple(ctx for ctx, _ in self._under_way.values())

    async def carry_out(
        self, job: Job, held: Held, won: Answered[ClaimAnswer], within: timedelta
    ) -> bool:
        """Do the work of a won claim and record its end; tell whether the run is settled.

        If it is not, somebody has to watch it. Takes over the place in ``room_of(job)``.
        """
        answer = won.answer
        self._recorder.grant(held, won)
        leave = self.room_of(job).leave
        ctx: RunContext | None = None
        try:
            if self._recorder.may_start(job, held):
                ctx = self._begin(job, held, answer)
                self._under_way[held.token] = ctx, job.kind
                ending = await self._act(Work(job, ctx, held, within), leave)
            else:
                leave()
                ending = Ending(RunState.INTERRUPTED, begun=False)
            return await self._recorder.record(job, held, ctx, answer, ending)
        finally:
            self._recorder.let_go(held)
            self._under_way.pop(held.token, None)

    def _begin(self, job: Job, held: Held, answer: ClaimAnswer) -> RunContext:
        core = self._core
        deadline = None
        # that of a message limits its worker, not us
        if job.timeout is not None and not job.track:
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
            tracking=_tracking(job, held, answer),
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
                return await publish(self._core, work, self.outbox, self._recorder.was_begun)
            return await run_coroutine(self._core, work, self._coroutines)
        finally:
            leave()

    def interrupt(self) -> None:
        """Tell the attempts under way to stop."""
        for ctx, kind in self._under_way.values():
            if self._recorder.hears_stop(kind):
                ctx.signal.set("stop")

    def end(self) -> None:
        """Cancel the coroutines that are still under way, and ask a silent store no longer.

        A thread cannot be ended: its lease is kept as long as it runs.
        """
        self._core.grace_is_over = True
        for ctx in self.under_way():
            ctx.signal.set("stop")
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
        """Give up every right held here, though what holds it still runs."""
        await self._recorder.release_all()

    def close(self) -> None:
        """Let the threads go that nothing runs on."""
        self._threads.shutdown(wait=False)
        self.outbox.close()


def _tracking(job: Job, held: Held, answer: ClaimAnswer) -> Tracking | None:
    """Say what the message of a tracked run has to bring about.

    A run that was claimed first while its job was not tracked stays so, whoever takes it over:
    no worker could begin it.
    """
    if job.on_store_error is None or answer.start_by is None:
        return None
    return Tracking(held.lease, answer.start_by, job.on_store_error, job.timeout)
