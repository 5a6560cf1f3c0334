"""Who wins a slot, and what everybody else hears."""

from __future__ import annotations

from datetime import timedelta

from anarchon.clock import MILLISECOND, to_millis
from anarchon.store import ClaimAnswer, Outcome
from anarchon_contract.claims.harness import Feature
from anarchon_contract.claims.questions import SECOND, Asker, scheduled
from anarchon_contract.leases.questions import HOUR, MINUTE
from anarchon_contract.needing import needs


async def test_the_first_claim_of_a_due_slot_wins(ask, due):
    answer = await ask.claim(due, instance="web-7", lease=20 * SECOND)

    assert answer == ClaimAnswer(
        Outcome.WON, attempt=1, fence=to_millis(due), lease=20 * SECOND, holder="web-7"
    )


async def test_another_token_hears_done(ask, due):
    """G1"""
    await ask.claim(due, "a")

    assert (await ask.claim(due, "b")).outcome is Outcome.DONE


@needs(Feature.HOLDER)
async def test_another_token_hears_who_has_it(ask, due):
    await ask.claim(due, "a", instance="web-7")

    answer = await ask.claim(due, "b", instance="web-8")

    assert answer == ClaimAnswer(Outcome.DONE, holder="web-7")


async def test_the_same_token_hears_again_that_it_won(ask, due):
    first = await ask.claim(due, "a")

    assert await ask.claim(due, "a") == first


async def test_the_same_token_hears_it_though_others_have_asked(ask, due):
    first = await ask.claim(due, "a")
    await ask.claim(due, "b")

    assert await ask.claim(due, "a") == first


async def test_the_same_token_hears_it_though_a_newer_slot_was_won(ask, due):
    first = await ask.claim(due, "a")
    for count in range(1, 4):
        await ask.claim(due + count * SECOND, f"t{count}")

    assert await ask.claim(due, "a") == first


async def test_the_same_token_hears_it_by_another_connection(ask, connect, due):
    """A claim whose reply was lost is asked again on a new connection."""
    first = await ask.claim(due, "a")

    assert await Asker(await connect()).claim(due, "a") == first


async def test_the_same_token_of_another_slot_has_not_won_it(ask, due):
    await ask.claim(due, "a")
    await ask.claim(due + SECOND, "b")

    assert (await ask.claim(due + SECOND, "a")).outcome is Outcome.DONE


async def test_a_claim_before_its_slot_hears_none(ask, now):
    slot = now + HOUR

    assert await ask.claim(slot) == ClaimAnswer(Outcome.NONE)
    assert await ask.claim(slot, "b") == ClaimAnswer(Outcome.NONE)


async def test_a_claim_later_than_allowed_hears_late(ask, due):
    assert await ask.claim(due, within=30 * SECOND) == ClaimAnswer(Outcome.LATE)


async def test_a_late_claim_keeps_nobody_with_more_time_from_the_slot(ask, due):
    await ask.claim(due, "a", within=30 * SECOND)

    assert (await ask.claim(due, "b", within=5 * MINUTE)).outcome is Outcome.WON


async def test_a_claim_before_its_slot_keeps_nobody_from_another_one(ask, now, due):
    await ask.claim(now + HOUR, "a")

    assert (await ask.claim(due, "b")).outcome is Outcome.WON


async def test_a_slot_that_is_taken_is_done_even_when_it_is_late(ask, due):
    await ask.claim(due, "a")

    assert (await ask.claim(due, "b", within=SECOND)).outcome is Outcome.DONE


async def test_the_winner_hears_again_that_it_won_even_when_it_is_late(ask, due):
    first = await ask.claim(due, "a")

    assert await ask.claim(due, "a", within=SECOND) == first


async def test_slots_of_one_job_a_millisecond_apart_are_two_slots(ask, due):
    first = await ask.claim(due, "a")
    second = await ask.claim(due + MILLISECOND, "b")

    assert (first.outcome, second.outcome) == (Outcome.WON, Outcome.WON)


async def test_the_same_slot_of_two_jobs_is_two_slots(ask, due):
    first = await ask.claim(due, "a", job="one")
    second = await ask.claim(due, "b", job="two")

    assert (first.outcome, second.outcome) == (Outcome.WON, Outcome.WON)


async def test_the_fence_is_the_slot_and_grows_from_slot_to_slot(ask, due):
    """G5"""
    slots = [due + count * MILLISECOND for count in range(5)]

    fences = [(await ask.claim(slot, f"t{to_millis(slot)}")).fence for slot in slots]

    assert fences == [to_millis(slot) for slot in slots]


@needs(Feature.ANY_ORDER)
async def test_an_older_slot_is_won_after_a_newer_one(ask, due):
    await ask.claim(due, "a")

    assert (await ask.claim(due - MINUTE, "b")).outcome is Outcome.WON
    assert (await ask.claim(due, "c")).outcome is Outcome.DONE


async def test_an_older_slot_is_won_by_one_at_most(ask, due):
    """G1: where it can be won at all once a newer one was."""
    await ask.claim(due, "a")

    heard = [(await ask.claim(due - MINUTE, token)).outcome for token in "bcd"]

    assert heard in ([Outcome.WON, Outcome.DONE, Outcome.DONE], [Outcome.DONE] * 3)


async def test_everything_of_a_claim_is_judged_alone(ask, due):
    """Neither the instance nor the lease nor the time it has tells two claims of a slot apart."""
    await ask.claim(due, "a", instance="web-1", lease=SECOND, within=HOUR)

    other = await ask.claim(due, "b", instance="web-1", lease=SECOND, within=HOUR)
    same = await ask.claim(due, "a", instance="web-1", lease=SECOND, within=2 * HOUR)

    assert (other.outcome, same.outcome) == (Outcome.DONE, Outcome.WON)


async def test_no_claims_at_all_tell_the_time(store, ask):
    first = await store.claim(())
    second = await store.claim(())

    assert first.answers == second.answers == ()
    assert first.time <= second.time
    assert first.time.utcoffset() == timedelta(0)


async def test_an_answer_tells_the_time_it_was_given(store, ask, due):
    before = await ask.time()
    reply = await store.claim([scheduled(due)])
    after = await ask.time()

    assert before - MILLISECOND <= reply.time <= after + MILLISECOND
