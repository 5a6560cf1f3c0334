"""The questions of this suite, with everything a test does not care about filled in."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from anarchon.claim_store import ClaimStore, Save
from anarchon.clock import to_millis
from anarchon.run import Attempt, Overlap, RunState
from anarchon.store import Claim, ClaimAnswer
from anarchon_contract.leases.questions import JOB, claim_of

SECOND = timedelta(seconds=1)


def scheduled(slot: datetime, token: str = "a", **options: object) -> Claim:
    """Return a claim as one is made where nothing needs a lease."""
    terms = {"overlap": Overlap.ALLOW, "max_attempts": 1}
    return claim_of(slot, token, **terms | options)  # type: ignore[arg-type]


def ended(
    slot: datetime,
    state: RunState = RunState.SUCCESS,
    detail: str | None = None,
    *,
    job: str = JOB,
    instance: str = "web-1",
    started: datetime | None = None,
) -> Attempt:
    began = started or slot
    done = began + SECOND
    return Attempt(job, slot, 1, state, instance, to_millis(slot), began, done, detail)


class Asker:
    """One store, asked one question at a time."""

    def __init__(self, store: ClaimStore) -> None:
        self.store = store

    async def time(self) -> datetime:
        return (await self.store.claim(())).time

    async def claim(self, slot: datetime, token: str = "a", **options: object) -> ClaimAnswer:
        (answer,) = (await self.store.claim([scheduled(slot, token, **options)])).answers
        return answer

    async def save(self, attempt: Attempt, keep: int = 1000) -> bool:
        (answer,) = (await self.store.save([Save(attempt, keep)])).answers
        return answer

    async def end(
        self,
        slot: datetime,
        state: RunState = RunState.SUCCESS,
        detail: str | None = None,
        *,
        job: str = JOB,
        keep: int = 1000,
    ) -> bool:
        """Save how the attempt ended that a claim of this slot has opened."""
        known = {one.slot: one for one in await self.history(job)}
        done = (await self.time()).replace(microsecond=0)
        return await self.save(replace(known[slot], state=state, detail=detail, ended=done), keep)

    async def history(self, *jobs: str, limit: int = 1000) -> tuple[Attempt, ...]:
        return (await self.store.history(jobs or (JOB,), limit)).answers
