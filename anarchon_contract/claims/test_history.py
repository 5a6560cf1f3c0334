"""The history of a store that keeps one, and what one says that keeps none."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from anarchon.claim_store import Save
from anarchon.clock import MILLISECOND, to_millis
from anarchon.errors import NoHistory
from anarchon.run import Attempt, RunState
from anarchon_contract.claims.harness import Feature
from anarchon_contract.claims.questions import SECOND, ended
from anarchon_contract.leases.questions import HOUR, JOB
from anarchon_contract.needing import needs

kept = needs(Feature.HISTORY)


async def test_a_store_that_keeps_no_history_says_so(harness, store, due):
    if Feature.HISTORY in harness.features:
        pytest.skip("it keeps one")

    with pytest.raises(NoHistory) as raised:
        await store.history([JOB], 10)
    saved = await store.save([Save(ended(due), 10), Save(ended(due + SECOND), 10)])

    assert raised.value.store == store.label
    assert saved.answers == (False, False)


@kept
async def test_a_win_opens_a_record(ask, due):
    before = await ask.time()
    await ask.claim(due, instance="web-7", begins_as=RunState.CLAIMED)

    (attempt,) = await ask.history()

    assert replace(attempt, started=due) == Attempt(
        JOB, due, 1, RunState.CLAIMED, "web-7", to_millis(due), due
    )
    assert before - MILLISECOND <= attempt.started <= await ask.time() + MILLISECOND


@kept
async def test_asking_again_opens_no_second_record(ask, due):
    await ask.claim(due, "a")
    before = await ask.history()

    await ask.claim(due, "a")

    assert await ask.history() == before


@kept
async def test_who_does_not_win_opens_none(ask, due, now):
    await ask.claim(due, "a")
    before = await ask.history()

    await ask.claim(due, "b")
    await ask.claim(due + SECOND, "b", within=SECOND)
    await ask.claim(now + HOUR, "b")

    assert await ask.history() == before


@kept
async def test_saving_closes_the_record(ask, due):
    await ask.claim(due, instance="web-7")
    (opened,) = await ask.history()
    closed = replace(
        opened, state=RunState.FAILED, ended=opened.started + SECOND, detail="ValueError: no"
    )

    assert await ask.save(closed)

    assert await ask.history() == (closed,)


@kept
async def test_saving_twice_is_harmless(ask, due):
    await ask.claim(due)
    attempt = ended(due)
    await ask.save(attempt)

    assert await ask.save(attempt)

    assert await ask.history() == (attempt,)


@kept
async def test_the_winner_that_asks_again_after_the_end_opens_it_no_more(ask, due):
    await ask.claim(due, "a")
    await ask.save(ended(due))

    await ask.claim(due, "a")

    assert await ask.history() == (ended(due),)


@kept
async def test_what_was_saved_last_is_told(ask, due):
    await ask.claim(due)
    await ask.save(ended(due, RunState.PUBLISHED, "id 1"))
    await ask.save(ended(due, RunState.FAILED, "no"))

    assert await ask.history() == (ended(due, RunState.FAILED, "no"),)


@kept
async def test_an_attempt_whose_record_is_gone_is_saved_all_the_same(ask, harness, due):
    await ask.claim(due)
    await harness.empty()

    assert await ask.save(ended(due))

    assert await ask.history() == (ended(due),)


@kept
async def test_everything_of_an_attempt_is_told_as_it_was_saved(ask, due):
    text = "it's \"so\" \\ {1} 'n' ñandú 日本 🦀\nand a line\tmore"
    attempt = Attempt(
        JOB,
        due,
        1,
        RunState.SUCCESS,
        "wéb 1",
        to_millis(due),
        due + MILLISECOND,
        due + 1001 * MILLISECOND,
        text,
        "pod 1",
        "message-1",
        due + 2 * MILLISECOND,
    )
    await ask.claim(due)

    await ask.save(attempt)

    assert await ask.history() == (attempt,)


@kept
@pytest.mark.parametrize("detail", ["", "é" * 2000, None], ids=["empty", "long", "none"])
async def test_a_detail_of_any_length_is_kept(ask, due, detail):
    await ask.claim(due)
    await ask.save(ended(due, detail=detail))

    (attempt,) = await ask.history()

    assert attempt.detail == detail


@kept
async def test_the_newest_slot_comes_first(ask, due):
    for count in range(3):
        await ask.claim(due + count * SECOND, f"t{count}")
    await ask.save(ended(due + SECOND))
    await ask.save(ended(due))

    slots = [attempt.slot for attempt in await ask.history()]

    assert slots == [due + 2 * SECOND, due + SECOND, due]


@kept
async def test_no_more_than_the_limit_is_told(ask, store, due):
    for count in range(5):
        await ask.claim(due + count * SECOND, f"t{count}")

    history = await ask.history(limit=2)

    assert [attempt.slot for attempt in history] == [due + 4 * SECOND, due + 3 * SECOND]
    assert await ask.history(limit=0) == ()


@kept
async def test_no_more_than_the_newest_are_kept(ask, due):
    for count in range(5):
        await ask.claim(due + count * SECOND, f"t{count}")
    await ask.save(ended(due + 4 * SECOND), keep=3)

    slots = [attempt.slot for attempt in await ask.history()]

    assert slots == [due + 4 * SECOND, due + 3 * SECOND, due + 2 * SECOND]


@kept
async def test_an_end_that_is_older_than_what_is_kept_goes(ask, due):
    for count in range(3):
        await ask.claim(due + count * SECOND, f"t{count}")

    assert await ask.save(ended(due), keep=2)

    slots = [attempt.slot for attempt in await ask.history()]
    assert slots == [due + 2 * SECOND, due + SECOND]


@kept
async def test_what_is_kept_of_a_job_leaves_the_others_alone(ask, due):
    for job in ("one", "two"):
        for count in range(3):
            await ask.claim(due + count * SECOND, f"t{count}", job=job)

    await ask.save(ended(due + 2 * SECOND, job="one"), keep=1)

    assert len(await ask.history("one")) == 1
    assert len(await ask.history("two")) == 3


@kept
async def test_the_bound_of_the_history_makes_no_slot_winnable_again(ask, due):
    """G2"""
    for count in range(3):
        await ask.claim(due + count * SECOND, "a")
    await ask.save(ended(due + 2 * SECOND), keep=1)

    heard = [(await ask.claim(due + count * SECOND, "b")).outcome for count in range(3)]

    assert set(heard) == {"done"}


@kept
async def test_several_jobs_are_told_in_one_order(ask, due):
    await ask.claim(due, "t1", job="a")
    await ask.claim(due + SECOND, "t2", job="b")
    await ask.claim(due + 2 * SECOND, "t3", job="a")
    await ask.claim(due + 3 * SECOND, "t4", job="c")

    history = await ask.history("b", "a")

    assert [(attempt.job, attempt.slot) for attempt in history] == [
        ("a", due + 2 * SECOND),
        ("b", due + SECOND),
        ("a", due),
    ]
    assert await ask.history("b", "a", limit=2) == history[:2]


@kept
async def test_a_job_that_was_never_claimed_has_no_history(ask, due):
    await ask.claim(due)

    assert await ask.history("other") == ()


@kept
async def test_no_jobs_have_no_history(store, ask, due):
    await ask.claim(due)

    assert (await store.history((), 10)).answers == ()


@kept
async def test_times_are_told_in_utc(ask, due):
    await ask.claim(due)
    await ask.end(due)

    (attempt,) = await ask.history()

    for moment in (attempt.slot, attempt.started, attempt.ended):
        assert moment is not None
        assert moment.utcoffset() == timedelta(0)
