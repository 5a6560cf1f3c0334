"""All protocol around a slot on a store that only decides claims.

1. Wait for a place: an instance claims only what it can start at once.
2. Claim under a fresh token. An answer that got lost is asked for again under the same token,
   until the slot is late. If none ever comes the slot may be ours without our knowing it: it is
   lost then, which is told.
3. *Won*: the executor does the rest. *Done*: somebody else has it. *Late*: nobody may have it any
   more. *None*: our estimate of the store's time was early, so claim the same slot again.
"""

from __future__ import annotations

import logging
import secrets
from datetime import datetime, timedelta

from anarchon.action import Kind
from anarchon.asking import ClaimAsking
from anarchon.clock import rfc3339
from anarchon.errors import OutcomeUnknown, StoreError, StoreUnavailable
from anarchon.events import EventKind
from anarchon.gathering import Answered
from anarchon.job import Job
from anarchon.keeper import Held
from anarchon.run import RunState
from anarchon.scheduler.claim_recorder import is_stopped
from anarchon.scheduler.core import SchedulerCore
from anarchon.scheduler.executor import Executor
from anarchon.scheduler.timers import Due
from anarchon.store import Claim, ClaimAnswer, Mode, Outcome, Terms

log = logging.getLogger("anarchon.scheduler")


class _Won(Held):
    """A slot that nobody else can have: what lapses is only the time to start it.

    That is a lease's length later than it may be claimed: it must not lapse while it waits for
    the broker, or for a thread.
    """

    __slots__ = ()

    @property
    def trusted_until(self) -> float:
        return self.asked_at + self.lease.total_seconds()


class ClaimOnlyRunner:
    """Claims slots, and sees won ones to their end."""

    def __init__(self, core: SchedulerCore, asking: ClaimAsking, executor: Executor) -> None:
        self._core = core
        self._asking = asking
        self._executor = executor

    def start(self, due: Due) -> None:
        """Claim a slot whose moment has come, beside the caller."""
        core, job = self._core, due.job
        if core.is_stopping:
            return
        left = due.slot + due.within - core.now()
        self._executor.room_of(job).enter(
            left.total_seconds(),
            lambda: core.spawn(self._claim_slot(due), f"anarchon-run-{job.name}"),
            lambda: self._skip(job, due.slot, "late"),
        )

    async def _claim_slot(self, due: Due) -> None:
        core, job, slot = self._core, due.job, due.slot
        if core.is_stopping:
            self._executor.room_of(job).leave()
            return
        held = self._held(job, slot, slot + due.within)
        answered = await self._ask(job, held, due.within)
        outcome = None if answered is None else answered.answer.outcome
        if answered is not None and outcome is Outcome.WON:
            await self._executor.carry_out(job, held, answered, due.within)
            return
        self._executor.room_of(job).leave()
        if outcome is Outcome.NONE:
            with core.droppable():
                await core.clock.sleep((slot - core.now()).total_seconds())
            self.start(due)
        elif outcome is Outcome.DONE:
            self._skip(job, slot, "taken")
        elif outcome is Outcome.LATE:
            self._skip(job, slot, "late")

    def _held(self, job: Job, slot: datetime, latest: datetime) -> Held:
        left = max(latest - self._core.now(), timedelta(0))
        return _Won(job.name, slot, secrets.token_hex(16), left + job.lease, job.heartbeat)

    async def _ask(self, job: Job, held: Held, within: timedelta) -> Answered[ClaimAnswer] | None:
        """Claim a slot; ``None`` if there was no answer, which is told."""
        core = self._core
        begins_as = RunState.CLAIMED if job.kind is Kind.PUBLISH else RunState.RUNNING
        terms = Terms(job.lease, job.overlap, job.max_attempts, begins_as)
        claim = Claim(job.name, held.slot, held.token, Mode.SCHEDULED, core.instance, terms, within)
        latest = held.slot + within
        asked_at = core.clock.monotonic()

        def is_in_vain() -> bool:
            # a handler would not be begun, and the slot is others' to win
            return is_stopped(core, job.kind) or core.now() > latest

        try:
            return await self._asking.claim(
                claim,
                deadline=min(job.lease / 3, job.heartbeat).total_seconds(),
                give_up=is_in_vain,
            )
        except (StoreUnavailable, OutcomeUnknown) as error:
            if core.now() <= latest and isinstance(error, StoreUnavailable):
                # given up for a stop, and nothing happened: others have time to claim it
                return None
            # a store that is away is told of once, not once for each slot
            self._skip(job, held.slot, "late", detail="the store gave no answer in time")
            if isinstance(error, OutcomeUnknown):
                log.warning(
                    "a slot may have been won and is lost, for the store did not say: job=%s"
                    " slot=%s asked for %.1f s",
                    job.name,
                    rfc3339(held.slot),
                    core.clock.monotonic() - asked_at,
                )
        except StoreError as error:
            detail = "the store refused the claim"
            core.emit(EventKind.ERROR, job.name, slot=held.slot, detail=detail, error=error)
        return None

    def _skip(self, job: Job, slot: datetime, reason: str, detail: str | None = None) -> None:
        self._core.emit(EventKind.SKIP, job.name, slot=slot, reason=reason, detail=detail)
