"""One caller for everybody: what is asked in one moment travels together, and is asked again."""

import asyncio
import itertools
from collections.abc import Sequence
from datetime import timedelta
from typing import cast

import pytest

from anarchon.asking import Asking
from anarchon.calling import PATIENCE
from anarchon.errors import OutcomeUnknown, SchemaMismatch, StoreError, StoreUnavailable
from anarchon.gathering import GATHER, LARGEST_BATCH
from anarchon.store import (
    LeaseStore,
)
from anarchon.testing import ManualClock
from tests.unit.answers import SLOT, WON, Answers, Caller


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


def leave_out(store: Answers) -> set[str]:
    """Let the store answer for no job in this set, and for the others if they are asked alone."""
    left_out: set[str] = set()

    async def faults(jobs: Sequence[str]) -> None:
        if left_out.isdisjoint(jobs):
            return
        kind = StoreUnavailable if left_out.issuperset(jobs) else OutcomeUnknown
        error = kind("s", "some are away")
        error.partly = True
        raise error

    store._faults = faults  # type: ignore[method-assign]
    return left_out


async def test_what_the_store_does_not_answer_for_costs_nobody_else_an_answer() -> None:
    async with Caller() as caller:
        left_out = leave_out(caller.store)
        left_out.add("37")
        asked = {str(n): caller.claim(str(n)) for n in range(100)}
        await caller.clock.advance(0)

        assert [job for job, task in asked.items() if not task.done()] == ["37"]

        left_out.clear()
        await caller.clock.advance(1)
        assert (await asked["37"]).answer is WON


async def test_a_store_that_does_not_answer_for_all_is_not_away_and_told_now_and_then(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with Caller() as caller:
        leave_out(caller.store).add("a")
        caller.claim("a")
        await caller.clock.advance(50)
        caller.claim("b")
        await caller.clock.advance(50)

    told = [r.getMessage() for r in caplog.records if r.name == "anarchon.store"]
    assert len(told) == 2
    assert all("answers for some jobs only" in line for line in told)


async def test_nobody_waits_for_what_the_store_does_not_answer_for() -> None:
    async with Caller() as caller:
        leave_out(caller.store).add("a")
        caller.claim("a")
        await caller.clock.advance(60.2)

        asked = caller.claim("b")
        await caller.clock.advance(GATHER)

        assert asked.done()
        assert 60 <= len(caller.store.claims) <= 130


async def test_what_the_store_never_answers_for_is_given_up() -> None:
    """It may have happened where it was asked along with others, and not where it was alone."""
    async with Caller() as caller:
        leave_out(caller.store).update("ab")
        alone = caller.claim("a", give_up=lambda: True)
        await caller.clock.advance(1)
        beside = caller.claim("b", give_up=lambda: True)
        await asyncio.gather(caller.claim("c"), caller.clock.advance(1))

        with pytest.raises(StoreUnavailable):
            await alone
        with pytest.raises(OutcomeUnknown):
            await beside


async def test_closing_fails_what_the_store_does_not_answer_for() -> None:
    async with Caller() as caller:
        leave_out(caller.store).add("a")
        asked = caller.claim("a")
        await caller.clock.advance(0.1)

        await caller.asking.close()

        with pytest.raises(StoreUnavailable):
            await asked


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


async def test_what_waits_to_be_asked_again_goes_as_soon_as_the_store_answers_anybody() -> None:
    """After a long outage the pauses are long: an end would be recorded up to 5 s late."""
    async with Caller() as caller:
        caller.store.errors = [StoreUnavailable("s", "away")] * 1000
        finish = caller.finish()
        await caller.clock.advance(60)
        caller.store.errors = []

        caller.claim()
        await caller.clock.advance(0.02)

        assert finish.done()


async def test_finishes_and_claims_do_not_share_calls() -> None:
    async with Caller() as caller:
        asked = [caller.claim(), caller.finish()]
        await caller.clock.advance(0)
        await asyncio.gather(*asked)

        assert (caller.store.sizes(), len(caller.store.finishes)) == ([1], 1)


async def test_a_slow_answer_tells_when_its_request_was_sent() -> None:
    """The store may have granted the lease right then, and counts it from there."""
    async with Caller() as caller:
        await caller.clock.advance(1)
        caller.store.takes = 3

        asked = caller.claim()
        await caller.clock.advance(4)

        assert (await asked).asked_at == 1
