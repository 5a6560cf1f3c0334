"""Every store answers as the rules do, whatever it is asked and in whatever order.

The same random questions go to the store and to the store in memory, whose clock is set to
the time the other one answered with. Leases last for hours, so that only the harness ends
them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random

import pytest

from anarchon.clock import EPOCH
from anarchon.run import Attempt, Overlap, RunState
from anarchon.store import (
    FINGERPRINT_MEMORY,
    Claim,
    ClaimAnswer,
    Finish,
    KnownJob,
    LeaseStore,
    Mode,
    Outcome,
    Prune,
    Registration,
    Release,
    Renewal,
    Reply,
)
from tests.contract.harness import Harness
from tests.contract.harness_memory import MemoryHarness
from tests.contract.questions import DAY, MINUTE, claim_of

JOBS = ("a", "b", "c", "met last")
STEPS = 120


@pytest.mark.parametrize("seed", range(20))
async def test_a_store_answers_as_the_rules_do(harness, store, now, seed):
    """G1, G2, G3, G4, G5"""
    pair = Pair(harness, store, now, Random(seed))
    await pair.meet()

    for _ in range(STEPS):
        await pair.step()

    await pair.compare_history()


class Pair:
    """A store and its model, asked the same."""

    def __init__(self, harness: Harness, store: LeaseStore, now: datetime, random: Random) -> None:
        self._time = now
        self._model_harness = MemoryHarness(lambda: self._time)
        self._model = self._model_harness.connect()
        self._harness = harness
        self._store = store
        self._random = random
        self._slots = [now - DAY * 31, now - DAY, *(now - n * MINUTE for n in (9, 6, 3, 2, 1))]
        self._slots.append(now + DAY)
        self._tokens: dict[tuple[str, datetime], list[str]] = defaultdict(list)
        self._fences: dict[str, dict[tuple[datetime, int], int]] = defaultdict(dict)
        self._log: list[object] = []

    async def meet(self) -> None:
        known = JOBS[:-1]
        registrations = [Registration(job, "v0") for job in known]
        self._time = (await self._store.active(registrations)).time
        await self._model.active(registrations)
        for harness in (self._harness, self._model_harness):
            await harness.lower_floor(known, self._time - 365 * DAY)

    async def step(self) -> None:
        kinds = (self.claim, self.renew, self.finish, self.release, self.lapse, self.register)
        (kind,) = self._random.choices(
            (*kinds, self.age, self.prune, self.compare_history), (40, 5, 12, 8, 20, 4, 2, 3, 3)
        )
        await kind()

    async def claim(self) -> None:
        jobs = self._random.sample(JOBS, self._random.randint(1, len(JOBS)))
        claims = [self._claim_of(job) for job in jobs]
        self._log.append(claims)
        told, wanted = await self._both(await self._store.claim(claims), claims)
        for asked, answer, model in zip(claims, told, wanted, strict=True):
            assert replace(answer, fence=0) == replace(model, fence=0), self._story(asked)
            assert bool(answer.fence) == bool(model.fence), self._story(asked)
            if answer.outcome is Outcome.WON:
                self._check_fence(asked, answer)

    def _check_fence(self, asked: Claim, answer: ClaimAnswer) -> None:
        given = self._fences[asked.job]
        attempt = (asked.slot, answer.attempt)
        newest = max(given.values(), default=0)
        # a token that asks again hears the fence of its attempt
        assert given.get(attempt) == answer.fence or answer.fence > newest, self._story(asked)
        given[attempt] = answer.fence

    async def _both(
        self, reply: Reply[ClaimAnswer], claims: Sequence[Claim]
    ) -> tuple[Sequence[ClaimAnswer], Sequence[ClaimAnswer]]:
        self._time = reply.time
        return reply.answers, (await self._model.claim(claims)).answers

    def _claim_of(self, job: str) -> Claim:
        random = self._random
        slot = random.choice(self._slots)
        used = self._tokens[job, slot]
        if not used or random.random() < 0.7:
            used.append(f"t{len(self._log)}-{job}")
        return claim_of(
            slot,
            random.choice(used[-3:]),
            job=job,
            mode=random.choices(list(Mode), (2, 1, 2))[0],
            instance=f"web-{random.randrange(3)}",
            lease=timedelta(hours=random.randint(1, 3)),
            overlap=random.choice(list(Overlap)),
            max_attempts=random.randint(1, 3),
            begins_as=random.choice((RunState.CLAIMED, RunState.RUNNING)),
            within=random.choice((4 * MINUTE, 400 * DAY)),
        )

    async def renew(self) -> None:
        asked = [Renewal(*held) for held in self._held()]
        self._log.append(asked)
        await self._judge(await self._store.renew(asked), self._model.renew(asked))

    async def finish(self) -> None:
        states = (RunState.SUCCESS, RunState.FAILED, RunState.PUBLISHED)
        asked = [
            Finish(*held, self._random.choice(states), self._random.choice((None, "", "said")))
            for held in self._held()
        ]
        self._log.append(asked)
        await self._judge(await self._store.finish(asked), self._model.finish(asked))

    async def release(self) -> None:
        asked = [Release(*held, self._random.random() < 0.5) for held in self._held()]
        self._log.append(asked)
        await self._judge(await self._store.release(asked), self._model.release(asked))

    async def _judge(self, reply, model) -> None:
        self._time = reply.time
        assert reply.answers == (await model).answers, self._story()

    def _held(self) -> list[tuple[str, datetime, str]]:
        """Pick leases that are or were held, under their tokens or former ones."""
        live = self._model_harness.unfinished()
        former = [
            (job, slot, token) for (job, slot), used in self._tokens.items() for token in used[-3:]
        ]
        picked = self._random.sample(live, min(len(live), 2)) + self._random.sample(
            former, min(len(former), 2)
        )
        self._random.shuffle(picked)
        return picked

    async def lapse(self) -> None:
        live = self._model_harness.unfinished()
        if live:
            job, slot, _ = self._random.choice(live)
            self._log.append(("lapse", job, slot))
            for harness in (self._harness, self._model_harness):
                await harness.lapse(job, slot)

    async def register(self) -> None:
        jobs = self._random.sample(JOBS, self._random.randint(1, len(JOBS)))
        asked = [Registration(job, f"v{self._random.randrange(3)}") for job in jobs]
        self._log.append(asked)
        reply = await self._store.active(asked)
        self._time = reply.time
        wanted = (await self._model.active(asked)).answers
        assert [_rounded(job) for job in reply.answers] == [_rounded(job) for job in wanted], (
            self._story()
        )

    async def age(self) -> None:
        job = self._random.choice(JOBS[:-1])
        self._log.append(("age", job))
        if not self._model_harness.has_fingerprint(job, "v0"):
            return
        for harness in (self._harness, self._model_harness):
            await harness.age_fingerprint(job, "v0", FINGERPRINT_MEMORY / 2 + MINUTE)

    async def prune(self) -> None:
        asked = [
            Prune(job, self._random.randrange(6), self._random.choice((0, 5)) * MINUTE)
            for job in self._random.sample(JOBS, 2)
        ]
        self._log.append(asked)
        await self._judge(await self._store.prune(asked), self._model.prune(asked))

    async def compare_history(self) -> None:
        jobs, limit = self._random.sample(JOBS, 3), self._random.choice((3, 1000))
        self._log.append(("history", jobs, limit))
        told = (await self._store.history(jobs, limit)).answers
        wanted = (await self._model.history(jobs, limit)).answers
        assert [_timeless(a) for a in told] == [_timeless(a) for a in wanted], self._story()

    def _story(self, about: object = None) -> str:
        return "\n".join(map(str, ["", *self._log[-12:], "asked:", about]))


def _timeless(attempt: Attempt) -> Attempt:
    """Leave out what the clock makes of an attempt; a batch may take some time."""
    ended = None if attempt.ended is None else EPOCH
    return replace(attempt, fence=bool(attempt.fence), started=EPOCH, ended=ended)


def _rounded(job: KnownJob) -> KnownJob:
    others = tuple((name, EPOCH) for name, _ in job.others)
    return replace(job, first_seen=EPOCH, others=others)
