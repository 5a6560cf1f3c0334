"""The questions the contract tests ask, with everything a test does not care about filled in."""

from __future__ import annotations

from datetime import datetime, timedelta

from anarchon.run import Attempt, Overlap, RunState
from anarchon.store import (
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
)

JOB = "sync"
LEASE = timedelta(seconds=15)
MINUTE = timedelta(minutes=1)
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
    within: timedelta = timedelta(minutes=5),
) -> Claim:
    terms = Terms(lease, overlap, max_attempts, begins_as)
    return Claim(job, slot, token, mode, instance, terms, within)


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

    async def renew(self, slot: datetime, token: str = "a", job: str = JOB) -> bool:
        (answer,) = (await self.store.renew([Renewal(job, slot, token)])).answers
        return answer

    async def finish(
        self,
        slot: datetime,
        token: str = "a",
        state: RunState = RunState.SUCCESS,
        detail: str | None = None,
        job: str = JOB,
    ) -> bool:
        (answer,) = (await self.store.finish([Finish(job, slot, token, state, detail)])).answers
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
