"""What a won claim means on a store that keeps leases, up to the record of how it ended.

The heartbeats go on until the end is stored, however long the store is away. The store has
the last word: a finish it refuses means that somebody else was given the run. A tracked run
does not end here: once it is sent, ``anarchon.scheduler.backlog`` has it.
"""

from __future__ import annotations

import asyncio
from datetime import datetime

from anarchon.action import Kind
from anarchon.asking import Asking
from anarchon.errors import StoreError
from anarchon.events import EventKind
from anarchon.gathering import Answered
from anarchon.job import Job
from anarchon.keeper import Held, Keeper
from anarchon.run import RunContext, RunState
from anarchon.scheduler.actions import Ending, emit_ending
from anarchon.scheduler.backlog import Backlog, was_begun
from anarchon.scheduler.core import SchedulerCore
from anarchon.store import ClaimAnswer, Finish, Release


class LeaseRecorder:
    """Keeps the lease of an attempt and writes its end under the lease's token."""

    def __init__(
        self, core: SchedulerCore, asking: Asking, keeper: Keeper, backlog: Backlog
    ) -> None:
        self._core = core
        self._asking = asking
        self._keeper = keeper
        self._backlog = backlog

    def grant(self, held: Held, won: Answered[ClaimAnswer]) -> None:
        assert won.answer.lease is not None, "a won claim tells its lease"
        self._keeper.grant(held, won.answer.lease, won.asked_at)

    def may_start(self, job: Job, held: Held) -> bool:
        return not self._core.is_stopping and held.is_trusted_at(self._core.clock.monotonic())

    def hears_stop(self, kind: Kind) -> bool:
        # whatever it is, a backup takes it over
        return True

    async def was_begun(self, job: Job, slot: datetime) -> bool | None:
        return await was_begun(self._asking, job, slot)

    async def record(
        self, job: Job, held: Held, ctx: RunContext | None, answer: ClaimAnswer, ending: Ending
    ) -> bool:
        """Tell whether the run is settled.

        It is not when it was released, or lost, or waits for a worker: somebody has to watch it
        then.
        """
        held.over = True
        # from here on the lease is kept until the end is stored
        held.renew_until = float("inf")
        if ending.state is RunState.INTERRUPTED:
            await self._give_back(job, held, answer.attempt, ending)
            return False
        if ctx is not None and ctx.tracking is not None and ending.state is RunState.PUBLISHED:
            self._keeper.drop(held)
            emit_ending(self._core, job, held, answer.attempt, ending)
            await self._backlog.mark(job, held, ctx, self._may_give_up)
            return False
        return await self._finish(job, held, answer.attempt, ending)

    def let_go(self, held: Held) -> None:
        # a lease that was renewed after a mistake of ours would keep the run from others
        self._keeper.drop(held)

    async def _finish(self, job: Job, held: Held, attempt: int, ending: Ending) -> bool:
        core = self._core
        finish = Finish(job.name, held.slot, held.token, ending.state, ending.detail)
        try:
            accepted = await self._asking.finish(
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
                detail=f"the end as {ending.state} was refused: {_whose(job)}",
            )
            return False
        emit_ending(core, job, held, attempt, ending)
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
            accepted = await self._asking.release(
                release, deadline=held.heartbeat.total_seconds(), give_up=self._may_give_up
            )
        except StoreError as error:
            self._not_stored(job, held, attempt, "not handed over; it will lapse", error)
            return
        if not accepted.answer and reason == "lease_lost":
            core.emit(
                EventKind.LEASE_LOST,
                job.name,
                slot=held.slot,
                attempt=attempt,
                detail=_whose(job) if job.track else None,
            )
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
        return self._core.grace_is_over

    async def release_all(self) -> None:
        """Release every lease held here, once, though what holds it still runs."""
        self._core.grace_is_over = True
        releases = (
            self._asking.release(
                Release(held.job, held.slot, held.token),
                deadline=held.heartbeat.total_seconds(),
                give_up=self._may_give_up,
            )
            for held in self._keeper.held()
        )
        await asyncio.gather(*releases, return_exceptions=True)


def _whose(job: Job) -> str:
    # a message whose confirmation got lost may have been begun
    return "the run is a worker's, or another's" if job.track else "the run is another's"
