"""All protocol around a slot on a store that keeps leases.

1. Wait for a place: an instance claims only what it can start at once.
2. Make a token and tell the keeper, which renews it from now on.
3. Claim. An answer that got lost is asked for again under the same token, until the slot is
   late; then the token is released once, in case the claim was stored, and the job is
   recovered when the store answers, as after a gap: however many slots went by without an
   answer, that is one question.
4. *Won*: the executor does the rest. *Running*: somebody else does, watch it. *Overlap*:
   watch the run that is in the way, and this slot, which an instance with a later jitter may
   yet win. *Late*: watch it too: if somebody started it in time, its runner may die. *None*:
   our estimate of the store's time was early, so claim the same slot again. *Done*: nothing.
5. A run that was released, or lost to a lapse, is watched like any other.

A look is the same with a claim that may only take over; it is never late and never waits
for a place: what cannot be started now is looked at again.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import datetime, timedelta

from anarchon.asking import Answered
from anarchon.errors import OutcomeUnknown, StoreError, StoreUnavailable
from anarchon.events import EventKind
from anarchon.job import Job, Kind
from anarchon.keeper import Held
from anarchon.run import RunState
from anarchon.scheduler.backups import Backups
from anarchon.scheduler.core import SchedulerCore
from anarchon.scheduler.executor import Executor
from anarchon.scheduler.timers import Due, allowed_lateness
from anarchon.store import Claim, ClaimAnswer, Mode, Outcome, Release, Terms

_SKIPPED_AS = {
    Outcome.RUNNING: "taken",
    Outcome.DONE: "taken",
    Outcome.OVERLAP: "overlap",
    Outcome.LATE: "late",
}


class LeaseRunner:
    """Claims slots, and sees won ones to their end."""

    def __init__(
        self, core: SchedulerCore, executor: Executor, unanswered: Callable[[Job], None]
    ) -> None:
        self._core = core
        self._executor = executor
        self._unanswered = unanswered
        self.backups = Backups(core.clock, self.look)

    def start(self, due: Due, mode: Mode = Mode.SCHEDULED) -> None:
        """Claim a slot whose moment has come, beside the caller."""
        name = f"anarchon-run-{due.job.name}"
        self._core.spawn(self._claim_slot(due.job, due.slot, due.within, mode), name)

    def look(self, job: Job, slot: datetime) -> None:
        """Look at a slot now, beside the caller."""
        self._core.spawn(self._look_at(job, slot), f"anarchon-look-{job.name}")

    async def _claim_slot(self, job: Job, slot: datetime, within: timedelta, mode: Mode) -> None:
        core = self._core
        latest = slot + within
        while True:
            with core.droppable():
                if core.now() < slot:
                    await core.clock.sleep((slot - core.now()).total_seconds())
                left = (latest - core.now()).total_seconds()
                entered = left >= 0 and await self._executor.room_of(job).enter(left)
            if not entered:
                self._skip(job, slot, "late")
                self.backups.watch(job, slot)
                return
            if core.is_stopping:
                # spawned right before the stop: to claim now would cost the run an attempt
                self._executor.room_of(job).leave()
                return
            answered = await self._ask(
                job, slot, mode, within, lambda: core.is_stopping or core.now() > latest
            )
            if answered is None or answered[1].answer.outcome is not Outcome.NONE:
                break
            self._executor.room_of(job).leave()
        # a look tells nothing: it would say "taken" as long as the other's run lasts
        if answered is None and core.now() > latest:
            self._skip(job, slot, "late", detail="the store gave no answer in time")
        elif answered is not None and answered[1].answer.outcome in _SKIPPED_AS:
            self._skip(job, slot, _SKIPPED_AS[answered[1].answer.outcome])
        await self._follow(job, slot, within, answered)

    async def _look_at(self, job: Job, slot: datetime) -> None:
        core = self._core
        if core.is_stopping:
            return
        within = allowed_lateness(job, slot)
        if not await self._executor.room_of(job).enter(0):
            self.backups.watch(job, slot)
            return
        # as long as a lease: if this claim was stored, it may be ours for so long
        until = core.clock.monotonic() + job.lease.total_seconds()
        answered = await self._ask(
            job,
            slot,
            Mode.TAKEOVER,
            within,
            lambda: core.is_stopping or core.clock.monotonic() > until,
        )
        if answered is not None and answered[1].answer.outcome is Outcome.NONE:
            self._executor.room_of(job).leave()
            if core.now() <= slot + within:
                self.backups.watch(job, slot)
            return
        await self._follow(job, slot, within, answered)

    async def _ask(
        self,
        job: Job,
        slot: datetime,
        mode: Mode,
        within: timedelta,
        give_up: Callable[[], bool],
    ) -> tuple[Held, Answered[ClaimAnswer]] | None:
        """Claim under a fresh token; ``None`` if there was no answer."""
        core = self._core
        begins_as = RunState.CLAIMED if job.kind is Kind.PUBLISH else RunState.RUNNING
        terms = Terms(job.lease, job.overlap, job.max_attempts, begins_as)
        held = Held(job.name, slot, secrets.token_hex(16), job.lease, job.heartbeat)
        claim = Claim(job.name, slot, held.token, mode, core.instance, terms, within)
        deadline = min(job.lease / 3, job.heartbeat).total_seconds()
        core.keeper.hold(held)
        try:
            answered = await core.asking.claim(claim, deadline=deadline, give_up=give_up)
        except Exception as error:
            core.keeper.drop(held)
            # a store that is away is told of once, not once for each slot
            if not isinstance(error, StoreUnavailable | OutcomeUnknown):
                detail = "the store refused the claim"
                core.emit(EventKind.ERROR, job.name, slot=slot, detail=detail, error=error)
            await self._take_back(held, deadline)
            return None
        if answered.answer.outcome is not Outcome.WON:
            core.keeper.drop(held)
        return held, answered

    async def _take_back(self, held: Held, deadline: float) -> None:
        release = Release(held.job, held.slot, held.token, begun=False)
        try:
            await self._core.asking.release(release, deadline=deadline, give_up=lambda: True)
        except StoreError:
            pass  # then it lapses, if it was stored at all

    async def _follow(
        self,
        job: Job,
        slot: datetime,
        within: timedelta,
        answered: tuple[Held, Answered[ClaimAnswer]] | None,
    ) -> None:
        """Do what the answer to a claim asks for."""
        if answered is not None and answered[1].answer.outcome is Outcome.WON:
            held, won = answered
            if not await self._executor.carry_out(job, held, won, within):
                self._watch(job, slot)
            return
        self._executor.room_of(job).leave()
        if answered is None:
            self._unanswered(job)
            return
        answer = answered[1].answer
        if answer.outcome is not Outcome.DONE:
            self._watch(job, slot)
        if answer.blocker is not None:
            self._watch(job, answer.blocker)

    def _watch(self, job: Job, slot: datetime) -> None:
        if not self._core.is_stopping:
            self.backups.watch(job, slot)

    def _skip(self, job: Job, slot: datetime, reason: str, detail: str | None = None) -> None:
        self._core.emit(EventKind.SKIP, job.name, slot=slot, reason=reason, detail=detail)
