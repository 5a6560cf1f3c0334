"""Many instances at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from random import Random

import pytest

from anarchon.clock import MILLISECOND
from anarchon.run import Overlap, RunState
from anarchon.store import ClaimAnswer, Finish, LeaseStore, Mode, Outcome, Prune, Registration
from anarchon_contract.leases.questions import DAY, JOB, LEASE, MINUTE, Asker, claim_of

SECOND = timedelta(seconds=1)


@pytest.fixture
async def crowd(connect) -> Sequence[Asker]:
    """32 instances, each with a connection of its own."""
    return [Asker(await connect()) for _ in range(32)]


def _outcomes(answers: Sequence[ClaimAnswer]) -> Counter[Outcome]:
    return Counter(answer.outcome for answer in answers)


async def test_of_32_instances_one_wins_a_slot(crowd, ask, due):
    """G1"""
    answers = await asyncio.gather(*(one.claim(due, f"t{n}") for n, one in enumerate(crowd)))

    assert _outcomes(answers) == {Outcome.WON: 1, Outcome.RUNNING: 31}
    assert len(await ask.history()) == 1


async def test_of_32_instances_one_wins_each_of_many_slots(crowd, ask, meet, now):
    """G1"""
    await meet(JOB)

    async def claim_all(number: int, one: Asker) -> list[bool]:
        won = []
        for count in range(20):
            slot = now - MINUTE + count * SECOND
            answer = await one.claim(slot, f"t{number}")
            won.append(answer.outcome is Outcome.WON)
            if won[-1]:
                assert await one.finish(slot, f"t{number}")
        return won

    wins = await asyncio.gather(*(claim_all(n, one) for n, one in enumerate(crowd)))

    # an instance may hear of an overlap while the one before it still runs, so a slot may
    # have no winner at all; never two
    assert all(sum(won) <= 1 for won in zip(*wins, strict=True))
    assert len(await ask.history()) >= 1


async def test_of_32_instances_one_takes_a_lapsed_run_over(crowd, harness, ask, due):
    """G1"""
    await ask.claim(due, "first")
    await harness.lapse(JOB, due)

    answers = await asyncio.gather(*(one.take_over(due, f"t{n}") for n, one in enumerate(crowd)))

    assert _outcomes(answers) == {Outcome.WON: 1, Outcome.RUNNING: 31}
    assert {answer.attempt for answer in answers} == {2}
    assert len({answer.fence for answer in answers}) == 1


async def test_of_32_instances_one_wins_where_each_claims_another_slot(crowd, ask, due):
    """G3"""
    answers = await asyncio.gather(
        *(one.claim(due + n * SECOND, f"t{n}") for n, one in enumerate(crowd))
    )

    assert _outcomes(answers) == {Outcome.WON: 1, Outcome.OVERLAP: 31}
    (winner,) = (n for n, answer in enumerate(answers) if answer.outcome is Outcome.WON)
    assert {a.blocker for a in answers if a.blocker is not None} == {due + winner * SECOND}


async def test_of_32_instances_one_makes_the_record(crowd, ask):
    """The same first time is told to all, and no registration is lost."""
    known = await asyncio.gather(
        *(one.register(f"v{n % 4}", job="new") for n, one in enumerate(crowd))
    )

    for version in range(4):
        assert len({job.first_seen for job in known[version::4]}) == 1
    others = (await ask.register("v9", job="new")).others
    assert [name for name, _ in others] == ["v0", "v1", "v2", "v3"]


async def test_of_32_instances_that_found_another_slot_each_one_wins(crowd, ask, due):
    """G1: they found them by the same one, so that all are one slot."""
    newest = (await ask.register()).newest
    claims = (
        one.claim(due + n * MILLISECOND, f"t{n}", overlap=Overlap.ALLOW, after=newest)
        for n, one in enumerate(crowd)
    )

    answers = await asyncio.gather(*claims)

    assert _outcomes(answers) == {Outcome.WON: 1, Outcome.DONE: 31}
    assert len(await ask.history()) == 1


async def test_of_32_deliveries_of_a_message_one_begins(crowd, ask, due):
    """G12"""
    await ask.publish(due)
    await ask.mark(due)

    begun = await asyncio.gather(
        *(one.begin(due, nonce=f"n{n}", holder=f"pod-{n}") for n, one in enumerate(crowd))
    )

    assert begun.count(True) == 1
    (attempt,) = await ask.history()
    assert attempt.worker == f"pod-{begun.index(True)}"


async def test_a_delivery_that_asks_32_times_at_once_hears_yes_each_time(crowd, ask, due):
    await ask.publish(due)

    begun = await asyncio.gather(*(one.begin(due, nonce="n") for one in crowd))

    assert begun == [True] * 32


async def test_of_a_beginning_and_a_takeover_only_one_has_its_way(crowd, harness, ask, due):
    """G4, G12"""
    for count in range(20):
        slot = due + count * SECOND
        await ask.publish(slot, "a")
        await harness.lapse(JOB, slot)

        begun, taken = await asyncio.gather(
            crowd[0].begin(slot, "a", "n"), crowd[1].take_over(slot, "b")
        )

        assert (begun, taken.outcome) in [(True, Outcome.RUNNING), (False, Outcome.WON)]
        token, nonce = ("a", "n") if begun else ("b", None)
        assert await ask.finish(slot, token, nonce=nonce)


async def test_a_mark_and_a_beginning_at_once_leave_the_run_begun(crowd, ask, due):
    """G12: the worker may be faster than the mark of who published."""
    for count in range(20):
        slot = due + count * SECOND
        await ask.publish(slot)

        _, begun = await asyncio.gather(crowd[0].mark(slot), crowd[1].begin(slot, nonce="n"))

        assert begun
        assert (await ask.history(limit=1))[0].state is RunState.RUNNING
        assert await ask.finish(slot, nonce="n")


async def test_a_mark_of_a_retry_and_the_retry_at_once_leave_it_begun(crowd, ask, due):
    """G12: a retry without a countdown may be faster than the mark of it."""
    for count in range(20):
        slot = due + count * SECOND
        await ask.publish(slot)
        await ask.begin(slot, nonce="n")

        _, begun = await asyncio.gather(
            crowd[0].mark_retry(slot, nonce="n"), crowd[1].begin(slot, nonce="m", retry=1)
        )

        assert begun
        assert not await ask.finish(slot, nonce="n")
        assert await ask.finish(slot, nonce="m")


async def test_one_of_a_finish_and_a_takeover_has_its_way(crowd, harness, ask, due):
    """G4"""
    for count in range(20):
        slot = due + count * SECOND
        await ask.claim(slot, "a")
        await harness.lapse(JOB, slot)

        finished, taken = await asyncio.gather(
            crowd[0].finish(slot, "a"), crowd[1].take_over(slot, "b")
        )

        assert (finished, taken.outcome) in [(True, Outcome.DONE), (False, Outcome.WON)]
        assert await ask.finish(slot, "b") is (taken.outcome is Outcome.WON)


async def test_random_batches_of_many_jobs_do_not_deadlock(connect, meet, ask, due):
    """G1"""
    jobs = [f"job-{count}" for count in range(40)]
    await meet(*jobs)
    wins: Counter[str] = Counter()

    async def contend(number: int, store: LeaseStore) -> None:
        random = Random(number)
        for turn in range(15):
            some = random.sample(jobs, 25)
            slot = due + turn * SECOND
            token = f"{number}-{turn}"
            answers = (await store.claim([claim_of(slot, token, job=job) for job in some])).answers
            won = [
                job
                for job, answer in zip(some, answers, strict=True)
                if answer.outcome is Outcome.WON
            ]
            wins.update(f"{job} {turn}" for job in won)
            random.shuffle(won)
            ended = [Finish(job, slot, token, RunState.SUCCESS) for job in won]
            assert all((await store.finish(ended)).answers)
            await store.active([Registration(job, f"v{number % 2}") for job in some])
            await store.prune([Prune(job, 5, timedelta(0)) for job in some])

    stores = [await connect() for _ in range(8)]
    await asyncio.gather(*(contend(n, store) for n, store in enumerate(stores)))

    assert wins
    assert set(wins.values()) == {1}


async def test_pruning_never_lets_a_lagging_instance_win_a_pruned_slot(connect, ask, due):
    """G2"""
    leader, pruner = Asker(await connect()), Asker(await connect())
    laggards = [Asker(await connect()) for _ in range(6)]
    slots = [due - DAY + count * SECOND for count in range(150)]
    finished: set[int] = set()

    async def lead() -> None:
        for count, slot in enumerate(slots):
            assert (await leader.claim(slot, "leader", within=2 * DAY)).outcome is Outcome.WON
            assert await leader.finish(slot, "leader")
            finished.add(count)
            await _let_others_go()

    async def lag(number: int, one: Asker) -> list[Outcome]:
        random = Random(number)
        heard = []
        while len(finished) < len(slots):
            # the newest ones finished, which the pruner is just about to delete
            newest = len(finished) - 1
            if newest >= 0:
                slot = slots[max(0, newest - random.randrange(4))]
                mode = random.choice(list(Mode))
                answer = await one.claim(slot, f"lag{number}", mode=mode, within=2 * DAY)
                heard.append(answer.outcome)
            # a store in memory answers without letting go of the loop
            await _let_others_go()
        return heard

    async def prune() -> None:
        while len(finished) < len(slots):
            await pruner.prune(keep=0)
            await _let_others_go()

    async with asyncio.TaskGroup() as group:
        lags = [group.create_task(lag(n, one)) for n, one in enumerate(laggards)]
        group.create_task(lead())
        group.create_task(prune())

    assert {outcome for task in lags for outcome in task.result()} == {Outcome.DONE}


async def test_an_instance_that_was_asked_again_elsewhere_wins_once(connect, ask, due):
    """A claim whose reply was lost is asked again, by another connection of the same instance."""
    one, two = Asker(await connect()), Asker(await connect())

    answers = await asyncio.gather(*(asker.claim(due, "same") for asker in (one, two)))

    assert answers[0] == answers[1]
    assert answers[0].outcome is Outcome.WON
    assert answers[0].lease == LEASE
    assert len(await ask.history()) == 1


async def _let_others_go() -> None:
    loop = asyncio.get_running_loop()
    waiter = loop.create_future()
    loop.call_soon(waiter.set_result, None)
    await waiter
