"""What the history shows."""

from __future__ import annotations

from datetime import timedelta

from anarchon.run import Overlap, RunState
from anarchon_contract.leases.questions import JOB, MINUTE

SECOND = timedelta(seconds=1)


async def test_the_newest_slot_comes_first(ask, due):
    for count in (1, 0, 2):
        await ask.claim(due + count * SECOND, f"t{count}", overlap=Overlap.ALLOW)

    slots = [attempt.slot for attempt in await ask.history()]

    assert slots == [due + 2 * SECOND, due + SECOND, due]


async def test_the_newest_attempt_of_a_slot_comes_first(ask, due):
    await ask.claim(due, "a")
    await ask.release(due, "a")
    await ask.take_over(due, "b")

    assert [attempt.attempt for attempt in await ask.history()] == [2, 1]


async def test_no_more_than_the_limit_is_told(ask, due):
    for count in range(5):
        await ask.claim(due + count * SECOND, f"t{count}", overlap=Overlap.ALLOW)

    history = await ask.history(limit=2)

    assert [attempt.slot for attempt in history] == [due + 4 * SECOND, due + 3 * SECOND]


async def test_several_jobs_are_told_in_one_order(ask, meet, due):
    await meet("a", "b", "c")
    await ask.claim(due, "t1", job="a")
    await ask.claim(due + SECOND, "t2", job="b")
    await ask.claim(due + 2 * SECOND, "t3", job="a", overlap=Overlap.ALLOW)
    await ask.claim(due + 3 * SECOND, "t4", job="c")

    history = await ask.history("b", "a")

    assert [(attempt.job, attempt.slot) for attempt in history] == [
        ("a", due + 2 * SECOND),
        ("b", due + SECOND),
        ("a", due),
    ]
    assert await ask.history("b", "a", limit=2) == history[:2]


async def test_a_job_named_twice_is_told_once(ask, due):
    await ask.claim(due, "a")

    assert len(await ask.history(JOB, JOB)) == 1


async def test_a_job_nobody_knows_has_no_history(ask, due):
    await ask.claim(due, "a")

    assert await ask.history("other") == ()


async def test_no_jobs_have_no_history(store, ask, due):
    await ask.claim(due, "a")

    assert (await store.history((), 10)).answers == ()


async def test_asking_for_the_history_makes_no_record(ask, harness, due):
    await ask.history("other")

    known = await ask.register(job="other")

    assert known.others == ()


async def test_times_are_told_in_utc(ask, due):
    await ask.claim(due, "a")
    await ask.finish(due, "a", RunState.SUCCESS)

    (attempt,) = await ask.history()

    assert attempt.slot == due
    for moment in (attempt.slot, attempt.started, attempt.ended):
        assert moment is not None
        assert moment.utcoffset() == timedelta(0)
        assert moment < await ask.time() + MINUTE
