"""The tracked runs that were published here and wait in the broker for a worker.

When the broker has confirmed the message of a tracked run, it is out of our hands, and a
worker may begin it before anything else happens here. So the lease is not renewed any more
from then on, and the run is marked as ``queued``. What can come between:

- *A worker is faster, or another instance took the run over.* The mark is refused. Which of
  the two it was makes no difference: the run is no longer ours to say anything about.
- *The store does not answer.* The mark is asked for again for as long as the message may be
  begun: it needs no live lease. If the lease lapses meanwhile and a backup publishes the next
  attempt, the mark is refused, and so is the older message when its worker asks to begin.
- *This process freezes, or dies.* The same, by the next attempt.

From the mark on the run is watched here as by everybody who met its slot. Looks tell whether
it still waits. If one does after a minute there may be no worker, or none with the
integration, which is said once a job.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from anarchon.asking import Asking
from anarchon.clock import rfc3339
from anarchon.durations import describe
from anarchon.errors import StoreError
from anarchon.events import EventKind
from anarchon.job import Job
from anarchon.keeper import Held
from anarchon.run import RunContext
from anarchon.scheduler.core import SchedulerCore
from anarchon.store import ClaimAnswer, Outcome, Renewal, Waiting

log = logging.getLogger("anarchon.scheduler")

#: Workers that are there begin sooner, unless they have more to do than they can.
PATIENCE = timedelta(minutes=1)
_FAR_ENOUGH = 200


@dataclass(frozen=True, slots=True)
class _Sent:
    attempt: int
    at: float
    start_by: datetime


class Backlog:
    """Marks what was sent, and tells of what nobody begins."""

    def __init__(self, core: SchedulerCore, asking: Asking) -> None:
        self._core = core
        self._asking = asking
        self._sent: dict[tuple[str, datetime], _Sent] = {}
        self._told: set[str] = set()

    async def mark(
        self, job: Job, held: Held, ctx: RunContext, give_up: Callable[[], bool]
    ) -> None:
        """Note in the store that what was sent just now waits; nobody renews it any more."""
        core = self._core
        assert ctx.tracking is not None, "only a tracked run waits in the broker"
        sent = _Sent(ctx.attempt, core.clock.monotonic(), ctx.tracking.start_by)
        try:
            marked = await self._asking.mark(
                Renewal(job.name, held.slot, held.token, waiting=Waiting()),
                deadline=held.heartbeat.total_seconds(),
                give_up=lambda: give_up() or core.now() > sent.start_by,
            )
        except StoreError as error:
            core.emit(
                EventKind.ERROR,
                job.name,
                slot=held.slot,
                attempt=ctx.attempt,
                detail="not marked as queued; unless a worker begins it, it is published again",
                error=error,
            )
            return
        if marked.answer:
            self._sent[job.name, held.slot] = sent

    def heard(self, job: Job, slot: datetime, answer: ClaimAnswer) -> None:
        """Learn from what the store says of a slot."""
        sent = self._sent.get((job.name, slot))
        if sent is None:
            return
        now = self._core.clock.monotonic()
        if answer.waits:
            if now - sent.at >= PATIENCE.total_seconds() and job.name not in self._told:
                self._told.add(job.name)
                self._core.spawn(self._tell(job, slot, sent), f"anarchon-backlog-{job.name}")
            return
        del self._sent[job.name, slot]
        # a store that lost it says nothing, and what ended in time had been begun
        over = answer.outcome is Outcome.DONE and self._core.now() > sent.start_by
        if answer.outcome is not Outcome.NONE and not over:
            self._told.discard(job.name)

    async def _tell(self, job: Job, slot: datetime, sent: _Sent) -> None:
        try:
            # a task that is to be retried waits in the broker as well
            begun = await was_begun(self._asking, job, slot, sent.attempt)
        except StoreError:
            self._told.discard(job.name)
            return
        if begun:
            self._told.discard(job.name)
            self._sent.pop((job.name, slot), None)
            return
        waited = timedelta(seconds=int(self._core.clock.monotonic() - sent.at))
        log.warning(
            "published, and no worker has begun it: job=%s slot=%s waited=%s until=%s; start"
            " workers, and give them the integration: without it they do the work, and the run"
            " ends as expired all the same",
            job.name,
            rfc3339(slot),
            describe(waited),
            rfc3339(sent.start_by),
        )


async def was_begun(
    asking: Asking, job: Job, slot: datetime, attempt: int | None = None
) -> bool | None:
    """Ask whether a worker has begun an attempt at a slot, or any; ``None`` if nobody knows.

    Raises what the store raises.
    """
    reply = await asking.history([job.name], _FAR_ENOUGH)
    known = [a for a in reply.answers if a.slot == slot and attempt in (None, a.attempt)]
    return any(a.begun is not None for a in known) if known else None
