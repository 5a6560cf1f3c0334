"""A store that answers everything, and somebody who asks it."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from anarchon.asking import Asking
from anarchon.errors import StoreError
from anarchon.gathering import Answered
from anarchon.run import Overlap, RunState
from anarchon.store import (
    Begin,
    Claim,
    ClaimAnswer,
    Finish,
    LeaseStore,
    Mode,
    Outcome,
    Registration,
    Release,
    Renewal,
    Reply,
    Terms,
    Waiting,
)
from anarchon.testing import ManualClock

SLOT = datetime(2026, 1, 1, tzinfo=UTC)
WON = ClaimAnswer(Outcome.WON, attempt=1)
TERMS = Terms(timedelta(seconds=15), Overlap.SKIP, 3, RunState.RUNNING)


class Answers:
    """A store that answers everything, unless the test has an error for the next calls."""

    label = "answers://"

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.claims: list[tuple[float, list[Claim]]] = []
        self.finishes: list[list[Finish]] = []
        self.begins: list[list[Begin]] = []
        self.marks: list[list[Renewal]] = []
        self.errors: list[Exception | None] = []
        self.poisoned: set[str] = set()
        self.answers_short = 0
        self.silent = False
        self.takes = 0.0
        self.opened = 0
        self.closed = 0

    async def open(self) -> None:
        self.opened += 1
        await self._faults(())

    async def close(self) -> None:
        self.closed += 1

    async def claim(self, claims: Sequence[Claim]) -> Reply[ClaimAnswer]:
        self.claims.append((self._clock.monotonic(), list(claims)))
        await self._faults([one.job for one in claims])
        return Reply(self._clock.wall(), (WON,) * (len(claims) - self.answers_short))

    async def finish(self, finishes: Sequence[Finish]) -> Reply[bool]:
        self.finishes.append(list(finishes))
        await self._faults([one.job for one in finishes])
        return Reply(self._clock.wall(), (True,) * len(finishes))

    async def begin(self, begins: Sequence[Begin]) -> Reply[bool]:
        self.begins.append(list(begins))
        await self._faults([one.job for one in begins])
        return Reply(self._clock.wall(), (True,) * len(begins))

    async def renew(self, renewals: Sequence[Renewal]) -> Reply[bool]:
        self.marks.append(list(renewals))
        await self._faults([one.job for one in renewals])
        return Reply(self._clock.wall(), (True,) * len(renewals))

    async def release(self, releases: Sequence[Release]) -> Reply[bool]:
        await self._faults([one.job for one in releases])
        return Reply(self._clock.wall(), (True,) * len(releases))

    async def active(self, jobs: Sequence[Registration]) -> Reply[Any]:
        await self._faults([one.job for one in jobs])
        return Reply(self._clock.wall(), tuple(one.job for one in jobs))

    async def _faults(self, jobs: Sequence[str]) -> None:
        if self.silent:
            await asyncio.get_running_loop().create_future()
        if self.takes:
            await self._clock.sleep(self.takes)
        if self.errors and (error := self.errors.pop(0)) is not None:
            raise error
        if self.poisoned.intersection(jobs):
            raise StoreError(self.label, "refused")

    def asked_at(self) -> list[float]:
        return [at for at, _ in self.claims]

    def sizes(self) -> list[int]:
        return [len(claims) for _, claims in self.claims]


class Caller:
    """An ``Asking`` on such a store, opened by a first call and quiet since."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = Answers(self.clock)
        self.outages: list[float] = []
        self.asking = Asking(
            cast(LeaseStore, self.store), self.clock, back_after_outage=self.outages.append
        )

    async def __aenter__(self) -> "Caller":
        await self.asking.active([])
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.asking.close()

    def claim(
        self,
        job: str = "job",
        *,
        slot: datetime = SLOT,
        token: str = "token",
        deadline: float = 5.0,
        give_up: Callable[[], bool] = lambda: False,
    ) -> "asyncio.Task[Answered[ClaimAnswer]]":
        claim = Claim(job, slot, token, Mode.SCHEDULED, "web-1", TERMS, timedelta(minutes=5))
        return asyncio.create_task(self.asking.claim(claim, deadline=deadline, give_up=give_up))

    def finish(
        self, job: str = "job", *, give_up: Callable[[], bool] = lambda: False
    ) -> "asyncio.Task[Answered[bool]]":
        finish = Finish(job, SLOT, "token", RunState.SUCCESS)
        return asyncio.create_task(self.asking.finish(finish, deadline=5, give_up=give_up))

    def begin(
        self,
        job: str = "job",
        *,
        slot: datetime = SLOT,
        nonce: str = "nonce",
        give_up: Callable[[], bool] = lambda: False,
    ) -> "asyncio.Task[Answered[bool]]":
        begin = Begin(job, slot, "token", 0, nonce, "pod", "message")
        return asyncio.create_task(self.asking.begin(begin, deadline=5, give_up=give_up))

    def mark(
        self,
        job: str = "job",
        *,
        slot: datetime = SLOT,
        give_up: Callable[[], bool] = lambda: False,
    ) -> "asyncio.Task[Answered[bool]]":
        mark = Renewal(job, slot, "token", waiting=Waiting())
        return asyncio.create_task(self.asking.mark(mark, deadline=5, give_up=give_up))
