"""One caller for everybody: what is asked in one moment travels together, and is asked again."""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from anarchon.asking import GATHER, LARGEST_BATCH, PATIENCE, Answered, Asking
from anarchon.errors import OutcomeUnknown, SchemaMismatch, StoreError, StoreUnavailable
from anarchon.run import Overlap, RunState
from anarchon.store import (
    Claim,
    ClaimAnswer,
    Finish,
    LeaseStore,
    Mode,
    Outcome,
    Registration,
    Release,
    Reply,
    Terms,
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
        self.errors: list[Exception | None] = []
        self.poisoned: set[str] = set()
        self.answers_short = 0
        self.silent = False
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

    async def release(self, releases: Sequence[Release]) -> Reply[bool]:
        await self._faults([one.job for one in releases])
        return Reply(self._clock.wall(), (True,) * len(releases))

    async def active(self, jobs: Sequence[Registration]) -> Reply[Any]:
        await self._faults([one.job for one in jobs])
        return Reply(self._clock.wall(), tuple(one.job for one in jobs))

    async def _faults(self, jobs: Sequence[str]) -> None:
        if self.silent:
            await asyncio.get_running_loop().create_future()
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


async def test_a_lone_claim_waits_for_nobody() -> None:
    async with Caller() as caller:
        await caller.clock.advance(1)

        asked = caller.claim()
        await caller.clock.advance(0)

        assert (await asked).answer is WON
        assert caller.store.asked_at() == [1]


async def test_claims_of_one_moment_travel_together_in_the_order_of_their_jobs() -> None:
    async with Caller() as caller:
        asked = [caller.claim(job) for job in ("c", "a", "b")]
        await caller.clock.advance(0)
        await asyncio.gather(*asked)

        [(_, claims)] = caller.store.claims
        assert [claim.job for claim in claims] == ["a", "b", "c"]


async def test_claims_within_20_ms_of_a_call_gather_until_then() -> None:
    async with Caller() as caller:
        caller.claim("first")
        for number in range(1, 5):
            await caller.clock.advance(GATHER / 5)
            caller.claim(str(number))
        await caller.clock.advance(GATHER)

        assert caller.store.asked_at() == pytest.approx([0, GATHER])
        assert caller.store.sizes() == [1, 4]


async def test_a_burst_travels_in_batches_without_waiting_between_full_ones() -> None:
    async with Caller() as caller:
        asked = [caller.claim(str(number)) for number in range(2 * LARGEST_BATCH + 10)]
        await caller.clock.advance(GATHER + 0.001)
        await asyncio.gather(*asked)

        assert caller.store.sizes() == [LARGEST_BATCH, LARGEST_BATCH, 10]
        assert caller.store.asked_at() == pytest.approx([0, 0, GATHER])


async def test_two_slots_of_one_job_never_travel_together() -> None:
    """Two slots of one job in one step could both win."""
    async with Caller() as caller:
        slots = [SLOT + timedelta(minutes=n) for n in range(3)]
        asked = [caller.claim("job", slot=slot) for slot in slots]
        asked.append(caller.claim("other"))
        await caller.clock.advance(1)
        await asyncio.gather(*asked)

        assert caller.store.sizes() == [2, 1, 1]


async def test_a_call_s_deadline_is_that_of_its_most_urgent_member() -> None:
    async with Caller() as caller:
        caller.store.silent = True
        patient = caller.claim("patient", deadline=5)
        urgent = caller.claim("urgent", deadline=1, give_up=lambda: True)
        await caller.clock.advance(1.01)

        assert urgent.done()
        with pytest.raises(OutcomeUnknown):
            await urgent
        assert not patient.done()
        caller.store.silent = False
        await caller.clock.advance(6)
        assert (await patient).answer is WON


@pytest.mark.parametrize("error", [StoreUnavailable("s", "away"), OutcomeUnknown("s", "lost")])
async def test_what_got_no_answer_is_asked_again_under_the_same_token(error: Exception) -> None:
    async with Caller() as caller:
        caller.store.errors = [error, error]

        asked = caller.claim(token="mine")
        await caller.clock.advance(1)

        assert (await asked).answer is WON
        tokens = [claim.token for _, claims in caller.store.claims for claim in claims]
        assert tokens == ["mine"] * 3


async def test_an_answer_tells_when_the_request_that_brought_it_was_sent() -> None:
    """Trust counts from the last time it was sent, not from the first."""
    async with Caller() as caller:
        caller.store.errors = [StoreUnavailable("s", "away")]

        asked = caller.claim()
        await caller.clock.advance(1)

        assert (await asked).asked_at == caller.store.asked_at()[-1] > 0


async def test_pauses_between_tries_grow_and_end_at_five_seconds() -> None:
    async with Caller() as caller:
        caller.store.errors = [StoreUnavailable("s", "away")] * 1000
        caller.claim()
        await caller.clock.advance(600)

        asked_at = caller.store.asked_at()
        pauses = [later - sooner for sooner, later in itertools.pairwise(asked_at)]
        assert 0.05 <= pauses[0] <= 0.1
        assert all(2.5 <= pause <= 5.001 for pause in pauses[10:])


async def test_a_claim_not_worth_asking_any_more_gets_the_last_error() -> None:
    async with Caller() as caller:
        caller.store.errors = [StoreUnavailable("s", "away")] * 1000
        hopeless = caller.claim("a", give_up=lambda: caller.clock.monotonic() > 10)
        kept = caller.claim("b")
        await caller.clock.advance(16)

        with pytest.raises(StoreUnavailable):
            await hopeless
        assert not kept.done()


async def test_a_claim_that_poisons_its_batch_stops_only_itself() -> None:
    """G10."""
    async with Caller() as caller:
        caller.store.poisoned = {"37"}
        asked = {str(n): caller.claim(str(n)) for n in range(100)}
        await caller.clock.advance(1)
        answers = await asyncio.gather(*asked.values(), return_exceptions=True)

        failed = [
            job for job, got in zip(asked, answers, strict=True) if isinstance(got, Exception)
        ]
        assert failed == ["37"]
        assert len(caller.store.claims) <= 2 * 7 + 1


async def test_a_half_that_got_no_answer_is_asked_again() -> None:
    async with Caller() as caller:
        caller.store.errors = [StoreError("s", "refused"), None, StoreUnavailable("s", "away")]
        asked = [caller.claim(str(n)) for n in range(4)]
        await caller.clock.advance(1)

        assert [answered.answer for answered in await asyncio.gather(*asked)] == [WON] * 4
        assert caller.store.sizes() == [4, 2, 2, 2]


async def test_a_store_of_another_version_is_not_asked_in_halves() -> None:
    async with Caller() as caller:
        caller.store.errors = [SchemaMismatch("s", "version 9")]
        asked = [caller.claim(str(n)) for n in range(4)]
        await caller.clock.advance(1)

        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(answer) for answer in answers] == [SchemaMismatch] * 4
        assert caller.store.sizes() == [4]


async def test_an_error_that_is_no_store_error_comes_out_as_one() -> None:
    """An adapter's bug must not take down who asks it: they all count on ``StoreError``."""
    async with Caller() as caller:
        caller.store.errors = [KeyError("a bug")]
        asked = caller.claim()
        await caller.clock.advance(1)

        with pytest.raises(StoreError) as caught:
            await asked
        assert isinstance(caught.value.__cause__, KeyError)

        caller.store.errors = [KeyError("a bug")]
        with pytest.raises(StoreError):
            await caller.asking.active([])


async def test_an_answer_of_the_wrong_length_is_an_error_and_not_the_end_of_asking() -> None:
    async with Caller() as caller:
        caller.store.answers_short = 1
        refused = caller.claim()
        await caller.clock.advance(1)
        with pytest.raises(StoreError):
            await refused

        caller.store.answers_short = 0
        asked = caller.claim()
        await caller.clock.advance(1)
        assert (await asked).answer is WON


async def test_calls_are_made_one_at_a_time_and_a_slow_one_costs_its_deadline() -> None:
    """G10."""
    async with Caller() as caller:
        caller.store.silent = True
        slow = asyncio.create_task(caller.asking.active([]))
        await caller.clock.advance(1)
        caller.store.silent = False
        asked = caller.claim()
        await caller.clock.advance(PATIENCE - 1.1)
        assert not asked.done()

        await caller.clock.advance(0.2)

        assert (await asked).answer is WON
        with pytest.raises(OutcomeUnknown):
            await slow


async def test_who_stopped_waiting_is_not_asked_for() -> None:
    async with Caller() as caller:
        caller.store.errors = [StoreUnavailable("s", "away")]
        asked = caller.claim()
        await caller.clock.advance(0)
        asked.cancel()
        await caller.clock.advance(10)

        assert caller.store.sizes() == [1]


async def test_closing_fails_who_still_waits_and_who_comes_later() -> None:
    async with Caller() as caller:
        caller.store.silent = True
        on_the_wire, waiting = caller.claim("a"), caller.finish()
        await caller.clock.advance(0)

        await caller.asking.close()

        for asked in (on_the_wire, waiting, caller.claim("late"), caller.finish("late")):
            with pytest.raises(StoreUnavailable):
                await asked


async def test_a_closed_connection_is_not_opened_again() -> None:
    async with Caller() as caller:
        await caller.asking.close()

        late = caller.claim("late")
        await caller.clock.advance(1)

        assert late.done()
        with pytest.raises(StoreUnavailable):
            await late
        with pytest.raises(StoreUnavailable):
            await caller.asking.active([])
        assert (caller.store.opened, caller.store.closed) == (1, 1)


async def test_a_store_that_cannot_be_opened_is_unavailable_after_a_while() -> None:
    clock = ManualClock()
    store = Answers(clock)
    store.silent = True
    asking = Asking(cast(LeaseStore, store), clock)

    opening = asyncio.create_task(asking.active([]))
    await clock.advance(PATIENCE + 0.1)

    with pytest.raises(StoreUnavailable):
        await opening
    await asking.close()


async def test_the_end_of_an_outage_is_told_once_with_its_length() -> None:
    async with Caller() as caller:
        caller.store.errors = [StoreUnavailable("s", "away")] * 6
        told = [caller.asking.is_answering]
        asked = caller.claim()
        await caller.clock.advance(1)
        told.append(caller.asking.is_answering)
        assert "away" in repr(caller.asking)

        await caller.clock.advance(20)
        await asked
        told.append(caller.asking.is_answering)
        assert told == [True, False, True]

        [length] = caller.outages
        assert length == pytest.approx(caller.store.asked_at()[-1])


async def test_finishes_and_claims_do_not_share_calls() -> None:
    async with Caller() as caller:
        asked = [caller.claim(), caller.finish()]
        await caller.clock.advance(0)
        await asyncio.gather(*asked)

        assert (caller.store.sizes(), len(caller.store.finishes)) == ([1], 1)
