"""What a won claim means on a store that only decides claims, up to the record of how it ended.

Nobody can take over what was won here. So a stop lets a message that is ours to send go out
still, as long as its grace lasts, and what it does interrupt is recorded as that and lost. The
record is for people: it is asked to be written for as long as a lease would last, and no
longer.
"""

from __future__ import annotations

import logging
from datetime import datetime

from anarchon.action import Kind
from anarchon.asking import ClaimAsking
from anarchon.claim_store import Save
from anarchon.clock import rfc3339
from anarchon.errors import StoreError
from anarchon.events import EventKind
from anarchon.gathering import Answered
from anarchon.job import Job
from anarchon.keeper import Held
from anarchon.run import Attempt, RunContext, RunState
from anarchon.scheduler.actions import Ending, emit_ending
from anarchon.scheduler.core import SchedulerCore
from anarchon.store import ClaimAnswer

log = logging.getLogger("anarchon.scheduler")


def hears_stop(kind: Kind) -> bool:
    """Tell whether a stop is the end of such an attempt, and not only the end of its grace."""
    return kind is not Kind.PUBLISH


def is_stopped(core: SchedulerCore, kind: Kind) -> bool:
    """Tell whether nothing of a kind is begun here any more."""
    return core.is_stopping if hears_stop(kind) else core.grace_is_over


class ClaimRecorder:
    """Writes how attempts ended into the store's history."""

    def __init__(self, core: SchedulerCore, asking: ClaimAsking) -> None:
        self._core = core
        self._asking = asking
        self._granted: dict[str, datetime] = {}

    def grant(self, held: Held, won: Answered[ClaimAnswer]) -> None:
        held.trust_from(won.asked_at)
        self._granted[held.token] = self._core.now()

    def may_start(self, job: Job, held: Held) -> bool:
        core = self._core
        return not is_stopped(core, job.kind) and held.is_trusted_at(core.clock.monotonic())

    def hears_stop(self, kind: Kind) -> bool:
        return hears_stop(kind)

    async def was_begun(self, job: Job, slot: datetime) -> bool | None:
        # nothing is tracked
        return None

    async def record(
        self, job: Job, held: Held, ctx: RunContext | None, answer: ClaimAnswer, ending: Ending
    ) -> bool:
        core = self._core
        detail = ending.detail
        if ending.state is RunState.INTERRUPTED and not ending.begun:
            detail = detail or "not begun"
        attempt = Attempt(
            job.name,
            held.slot,
            answer.attempt,
            ending.state,
            core.instance,
            answer.fence,
            self._granted[held.token],
            ended=core.now(),
            detail=detail,
        )
        until = core.clock.monotonic() + job.lease.total_seconds()
        try:
            await self._asking.save(
                Save(attempt, job.history_limit),
                deadline=held.heartbeat.total_seconds(),
                give_up=lambda: core.grace_is_over or core.clock.monotonic() > until,
            )
        except StoreError as error:
            core.emit(
                EventKind.ERROR,
                job.name,
                slot=held.slot,
                attempt=answer.attempt,
                detail="its end was not recorded",
                error=error,
            )
        if ending.state is RunState.INTERRUPTED:
            log.warning(
                "a slot is lost: job=%s slot=%s: %s",
                job.name,
                rfc3339(held.slot),
                detail or "interrupted",
            )
            core.emit(
                EventKind.INTERRUPTED,
                job.name,
                slot=held.slot,
                attempt=answer.attempt,
                reason=held.signal.reason,
                detail=detail,
                error=ending.error,
            )
        else:
            emit_ending(core, job, held, answer.attempt, ending)
        return True

    def let_go(self, held: Held) -> None:
        self._granted.pop(held.token, None)

    async def release_all(self) -> None:
        # there is nothing that anybody else could have
        self._core.grace_is_over = True
