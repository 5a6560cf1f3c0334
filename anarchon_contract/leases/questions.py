"""The questions the contract tests ask, with everything a test does not care about filled in."""

from __future__ import annotations

from datetime import datetime, timedelta

from anarchon.run import Attempt, Overlap, RunState
from anarchon.store import (
    Begin,
    Claim,
    ClaimAnswer,
    Finish,
    KnownJob,
    LeaseStore,
    Mode,
    Prune,
    Registration,
    Release,
    Renewal,
    Terms,
    Waiting,
)

JOB = "sync"
LEASE = timedelta(seconds=15)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def claim_of(
    slot: datetime,
    token: str = "a",
    *,
    job: str = JOB,
    mode: Mode = Mode.SCHEDULED,
    instance: str = "web-1",
    lease: timedelta = LEASE,
    overlap: Overlap = Overlap.SKIP,
    max_attempts: int = 3,
    begins_as: RunState = RunState.RUNNING,
    start_within: timedelta | None = None,
    within: timedelta = timedelta(minutes=5),
    after: datetime | None = None,
) -> Claim:
    terms = Terms(lease, overlap, max_attempts, begins_as, start_within)
    return Claim(job, slot, token, mode, instance, terms, within, after)


def tracked_claim_of(slot: datetime, token: str = "a", **options: object) -> Claim:
    tracked = {"begins_as": RunState.CLAIMED, "start_within": HOUR}
    return claim_of(slot, token, **tracked | options)  # type: ignore[arg-type]


def begin_of(
    slot: datetime,
    token: str = "a",
    nonce: str = "n",
    *,
    retry: int = 0,
    holder: str = "pod-1",
    message: str = "m-1",
    job: str = JOB,
) -> Begin:
    return Begin(job, slot, token, retry, nonce, holder, message)


class Asker:
    """One store, asked one question at a time."""

    def __init__(self, store: LeaseStore) -> None:
        self.store = store

    async def time(self) -> datetime:
        return (await self.store.active(())).time

    async def claim(self, slot: datetime, token: str = "a", **options: object) -> ClaimAnswer:
        asked = claim_of(slot, token, **options)  # type: ignore[arg-type]
        (answer,) = (await self.store.claim([asked])).answers
        return answer

    async def take_over(self, slot: datetime, token: str = "b", **options: object) -> ClaimAnswer:
        return await self.claim(slot, token, mode=Mode.TAKEOVER, **options)

    async def publish(self, slot: datetime, token: str = "a", **options: object) -> ClaimAnswer:
        """Claim a slot whose work is to be published, and followed to its end."""
        (answer,) = (await self.store.claim([tracked_claim_of(slot, token, **options)])).answers
        return answer

    async def renew(
        self, slot: datetime, token: str = "a", job: str = JOB, holder: str | None = None
    ) -> bool:
        (answer,) = (await self.store.renew([Renewal(job, slot, token, holder)])).answers
        return answer

    async def mark(self, slot: datetime, token: str = "a", job: str = JOB) -> bool:
        """Note as the publisher that the message was sent."""
        sent = Renewal(job, slot, token, waiting=Waiting())
        (answer,) = (await self.store.renew([sent])).answers
        return answer

    async def mark_retry(
        self,
        slot: datetime,
        token: str = "a",
        nonce: str = "n",
        *,
        retry: int = 1,
        delay: timedelta = timedelta(0),
        job: str = JOB,
    ) -> bool:
        waits = Renewal(job, slot, token, waiting=Waiting(nonce, retry, delay))
        (answer,) = (await self.store.renew([waits])).answers
        return answer

    async def begin(
        self, slot: datetime, token: str = "a", nonce: str = "n", **options: object
    ) -> bool:
        asked = begin_of(slot, token, nonce, **options)  # type: ignore[arg-type]
        (answer,) = (await self.store.begin([asked])).answers
        return answer

    async def finish(
        self,
        slot: datetime,
        token: str = "a",
        state: RunState = RunState.SUCCESS,
        detail: str | None = None,
        job: str = JOB,
        nonce: str | None = None,
    ) -> bool:
        asked = Finish(job, slot, token, state, detail, nonce)
        (answer,) = (await self.store.finish([asked])).answers
        return answer

    async def release(
        self, slot: datetime, token: str = "a", job: str = JOB, begun: bool = True
    ) -> bool:
        (answer,) = (await self.store.release([Release(job, slot, token, begun)])).answers
        return answer

    async def register(self, fingerprint: str = "v1", job: str = JOB) -> KnownJob:
        (answer,) = (await self.store.active([Registration(job, fingerprint)])).answers
        return answer

    async def history(self, *jobs: str, limit: int = 1000) -> tuple[Attempt, ...]:
        return (await self.store.history(jobs or (JOB,), limit)).answers

    async def prune(self, keep: int = 1000, spare: timedelta = timedelta(0), job: str = JOB) -> int:
        (answer,) = (await self.store.prune([Prune(job, keep, spare)])).answers
        return answer
