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
   A slot that followed from another (``anarchon.scheduler.polling``) is nobody else's: *done*
   says that a newer one is known, so the job is recovered, which finds that and its run.
5. A run that was released, or lost to a lapse, or waits in a broker, is watched like any other.

A look is the same with a claim that may only take over; it is never late, and waits for a
place no longer than a heartbeat: what cannot be started then is looked at again. A look
that finds nothing where a run was seen before comes to a store that lost it, as in a
failover: the slot is claimed as if its moment had just come.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from datetime import datetime, timedelta

from anarchon.action import Kind
from anarchon.asking import Asking
from anarchon.clock import rfc3339
from anarchon.errors import OutcomeUnknown, StoreError, StoreUnavailable
from anarchon.events import EventKind
from anarchon.gathering import Answered
from anarchon.job import Job
from anarchon.keeper import Held, Keeper
from anarchon.run import RunState
from anarchon.scheduler.backlog import Backlog
from anarchon.scheduler.backups import Backups
from anarchon.scheduler.core import SchedulerCore
from anarchon.scheduler.executor import Executor
from anarchon.scheduler.timers import Due, allowed_lateness, longest_lateness
from anarchon.store import Claim, ClaimAnswer, Mode, Outcome, Release, Terms

log = logging.getLogger("anarchon.scheduler")

Heard = Callable[[Outcome | None], None]

_SKIPPED_AS = {
    Outcome.RUNNING: "taken",
    Outcome.DONE: "taken",
    Outcome.OVERLAP: "overlap",
    Outcome.LATE: "late",
}


class LeaseRunner:
    """Claims slots, and sees won ones to their end."""

    def __init__(
        self,
        core: SchedulerCore,
        asking: Asking,
        keeper: Keeper,
        backlog: Backlog,
        executor: Executor,
        recover: Callable[[Job], None],
    ) -> None:
        self._core = core
        self._asking = asking
        self._keeper = keeper
        self._backlog = backlog
        self._executor = executor
        self._recover = recover
        self.backups = Backups(core.clock, self.look)

    def start(
        self, due: Due, mode: Mode = Mode.SCHEDULED, heard: Heard = lambda outcome: None
    ) -> None:
        """Claim a slot whose moment has come, beside the caller.

        ``heard`` is told the answer, ``None`` where there was none, before anything follows.
        """
        core, job, slot = self._core, due.job, due.slot
        if core.is_stopping:
            return

        def claim() -> None:
            core.spawn(self._claim_slot(due, mode, heard), f"anarchon-run-{job.name}")

        def be_late() -> None:
            heard(None)
            self._skip(job, slot, "late")
            self._watch(job, slot)

        left = slot + due.within - core.now()
        self._executor.room_of(job).enter(left.total_seconds(), claim, be_late)

    def look(self, job: Job, slot: datetime, was_seen: bool) -> None:
        """Look at a slot now, beside the caller; ``was_seen`` as for ``Backups.watch``."""
        core = self._core
        if core.is_stopping:
            return
        try:
            within = allowed_lateness(job, slot)
        except Exception:
            # the run is there, whatever its schedule says by now
            within = job.max_late
        # the looks of one moment need the places for that moment only
        self._executor.room_of(job).enter(
            job.heartbeat.total_seconds(),
            lambda: core.spawn(
                self._look_at(job, slot, was_seen, within), f"anarchon-look-{job.name}"
            ),
            lambda: self._watch(job, slot, was_seen=was_seen),
        )

    async def _claim_slot(self, due: Due, mode: Mode, heard: Heard) -> None:
        core = self._core
        job, slot, within = due.job, due.slot, due.within
        latest = slot + within
        if core.is_stopping:
            self._executor.room_of(job).leave()
            return
        answered = await self._ask(
            job,
            slot,
            mode,
            within,
            lambda: core.is_stopping or core.now() > latest,
            after=due.after,
        )
        if answered is not None and answered[1].answer.outcome is Outcome.NONE:
            self._executor.room_of(job).leave()
            with core.droppable():
                await core.clock.sleep((slot - core.now()).total_seconds())
            self.start(due, mode, heard)
            return
        heard(None if answered is None else answered[1].answer.outcome)
        # a look tells nothing: it would say "taken" as long as the other's run lasts
        if answered is None and core.now() > latest:
            self._skip(job, slot, "late", detail="the store gave no answer in time")
        elif answered is not None and answered[1].answer.outcome in _SKIPPED_AS:
            self._skip(job, slot, _SKIPPED_AS[answered[1].answer.outcome])
        await self._follow(job, slot, within, answered, after=due.after)

    async def _look_at(self, job: Job, slot: datetime, was_seen: bool, within: timedelta) -> None:
        core = self._core
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
            late = core.now() - slot
            # another edition's slot is not ours to start, though we may take its run over
            is_ours = job.schedule.latest_at(slot) == slot
            if was_seen and is_ours and late <= within:
                log.warning(
                    "the store has lost a run, claiming it anew: job=%s slot=%s",
                    job.name,
                    rfc3339(slot),
                )
                self.start(Due(job, slot, within))
            elif late <= longest_lateness(job, slot):
                self._watch(job, slot)
            return
        await self._follow(job, slot, within, answered)

    async def _ask(
        self,
        job: Job,
        slot: datetime,
        mode: Mode,
        within: timedelta,
        give_up: Callable[[], bool],
        *,
        after: datetime | None = None,
    ) -> tuple[Held, Answered[ClaimAnswer]] | None:
        """Claim under a fresh token; ``None`` if there was no answer."""
        core = self._core
        begins_as = RunState.CLAIMED if job.kind is Kind.PUBLISH else RunState.RUNNING
        terms = Terms(job.lease, job.overlap, job.max_attempts, begins_as, job.start_within)
        held = Held(job.name, slot, secrets.token_hex(16), job.lease, job.heartbeat)
        claim = Claim(job.name, slot, held.token, mode, core.instance, terms, within, after)
        deadline = min(job.lease / 3, job.heartbeat).total_seconds()
        self._keeper.hold(held)
        try:
            answered = await self._asking.claim(claim, deadline=deadline, give_up=give_up)
        except Exception as error:
            self._keeper.drop(held)
            # a store that is away is told of once, not once for each slot
            if not isinstance(error, StoreUnavailable | OutcomeUnknown):
                detail = "the store refused the claim"
                core.emit(EventKind.ERROR, job.name, slot=slot, detail=detail, error=error)
            await self._take_back(held, deadline)
            return None
        if answered.answer.outcome is not Outcome.WON:
            self._keeper.drop(held)
        self._backlog.heard(job, slot, answered.answer)
        return held, answered

    async def _take_back(self, held: Held, deadline: float) -> None:
        release = Release(held.job, held.slot, held.token, begun=False)
        try:
            await self._asking.release(release, deadline=deadline, give_up=lambda: True)
        except StoreError:
            pass  # then it lapses, if it was stored at all

    async def _follow(
        self,
        job: Job,
        slot: datetime,
        within: timedelta,
        answered: tuple[Held, Answered[ClaimAnswer]] | None,
        *,
        after: datetime | None = None,
    ) -> None:
        """Do what the answer to a claim asks for."""
        if answered is not None and answered[1].answer.outcome is Outcome.WON:
            held, won = answered
            if not await self._executor.carry_out(job, held, won, within):
                self._watch(job, slot, was_seen=True)
            return
        self._executor.room_of(job).leave()
        if answered is None:
            self._recover(job)
            return
        answer = answered[1].answer
        if after is not None and answer.outcome is Outcome.DONE:
            self._recover(job)
        elif answer.outcome is Outcome.RUNNING or (
            after is None and answer.outcome is not Outcome.DONE
        ):
            was_seen = answer.outcome is Outcome.RUNNING
            self._watch(job, slot, was_seen=was_seen, spare=answer.lease if answer.waits else None)
        if answer.blocker is not None:
            self._watch(job, answer.blocker, was_seen=True)

    def _watch(
        self, job: Job, slot: datetime, *, was_seen: bool = False, spare: timedelta | None = None
    ) -> None:
        if not self._core.is_stopping:
            self.backups.watch(job, slot, was_seen=was_seen, spare=spare or timedelta(0))

    def _skip(self, job: Job, slot: datetime, reason: str, detail: str | None = None) -> None:
        self._core.emit(EventKind.SKIP, job.name, slot=slot, reason=reason, detail=detail)
