"""A worker's questions, and marks that a run waits, are asked as all others are."""

import asyncio
from datetime import timedelta

import pytest

from anarchon.errors import OutcomeUnknown, StoreError, StoreUnavailable
from tests.unit.answers import SLOT, Caller


async def test_messages_that_arrive_in_one_moment_are_asked_about_in_one_call() -> None:
    """Two slots of one job as well: each begin is about its own run."""
    async with Caller() as caller:
        later = SLOT + timedelta(seconds=10)
        asked = [caller.begin("b"), caller.begin("a"), caller.begin("a", slot=later)]
        await caller.clock.advance(0)

        assert [(await one).answer for one in asked] == [True] * 3
        [call] = caller.store.begins
        assert [(b.job, b.slot) for b in call] == [("a", SLOT), ("a", later), ("b", SLOT)]


async def test_runs_sent_in_one_moment_are_marked_in_one_call() -> None:
    async with Caller() as caller:
        later = SLOT + timedelta(seconds=10)
        asked = [caller.mark("b"), caller.mark("a"), caller.mark("a", slot=later)]
        await caller.clock.advance(0)

        assert [(await one).answer for one in asked] == [True] * 3
        [call] = caller.store.marks
        assert [(m.job, m.slot) for m in call] == [("a", SLOT), ("a", later), ("b", SLOT)]


@pytest.mark.parametrize("error", [OutcomeUnknown("s", "lost"), StoreUnavailable("s", "away")])
async def test_what_got_no_answer_is_asked_again_word_by_word(error: Exception) -> None:
    """The same nonce tells the store that it is the same delivery."""
    async with Caller() as caller:
        caller.store.errors = [error]
        begin = caller.begin(nonce="mine")
        await caller.clock.advance(1)
        caller.store.errors = [error]
        mark = caller.mark()
        await caller.clock.advance(1)

        assert (await begin).answer
        assert (await mark).answer
        for calls in (caller.store.begins, caller.store.marks):
            first, again = calls
            assert first == again


async def test_who_gives_up_hears_why_there_was_no_answer() -> None:
    async with Caller() as caller:
        caller.store.errors = [StoreUnavailable("s", "away")] * 2
        begin = caller.begin(give_up=lambda: True)
        await caller.clock.advance(1)
        mark = caller.mark(give_up=lambda: True)
        await caller.clock.advance(1)

        for asked in (begin, mark):
            with pytest.raises(StoreUnavailable, match="away"):
                await asked


async def test_a_question_that_the_store_refuses_costs_no_other_its_answer() -> None:
    async with Caller() as caller:
        caller.store.poisoned = {"bad"}
        good = [caller.begin("a"), caller.mark("a")]
        bad = [caller.begin("bad"), caller.mark("bad")]
        await caller.clock.advance(1)

        assert [(await one).answer for one in good] == [True, True]
        for asked in bad:
            with pytest.raises(StoreError, match="refused"):
                await asked


async def test_begins_marks_and_ends_do_not_share_calls() -> None:
    async with Caller() as caller:
        asked = [caller.begin(), caller.mark(), caller.finish()]
        await caller.clock.advance(0)
        await asyncio.gather(*asked)

        sent = (caller.store.begins, caller.store.marks, caller.store.finishes)
        assert [len(calls) for calls in sent] == [1, 1, 1]


async def test_who_waits_for_an_answer_hears_of_the_end() -> None:
    async with Caller() as caller:
        caller.store.silent = True
        asked = [caller.begin(), caller.mark()]
        await caller.clock.advance(1)
        await caller.asking.close()

        for one in asked:
            with pytest.raises(StoreUnavailable, match="closed"):
                await one
