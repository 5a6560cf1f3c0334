"""Many instances at once: each slot has one winner."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest

from anarchon.clock import to_millis
from anarchon.store import ClaimAnswer, Outcome
from anarchon_contract.claims.contest import contend
from anarchon_contract.claims.harness import NAMESPACE, Feature
from anarchon_contract.claims.questions import SECOND, Asker, scheduled
from anarchon_contract.leases.questions import MINUTE
from anarchon_contract.needing import needs


@pytest.fixture
async def crowd(connect) -> Sequence[Asker]:
    """16 instances, each with a connection of its own."""
    return [Asker(await connect()) for _ in range(16)]


def _outcomes(answers: Sequence[ClaimAnswer]) -> Counter[Outcome]:
    return Counter(answer.outcome for answer in answers)


async def test_of_16_instances_one_wins_a_slot(crowd, due):
    """G1"""
    answers = await asyncio.gather(*(one.claim(due, f"t{n}") for n, one in enumerate(crowd)))

    assert _outcomes(answers) == {Outcome.WON: 1, Outcome.DONE: 15}


@needs(Feature.HISTORY)
async def test_of_16_instances_one_opens_the_record(crowd, ask, due):
    await asyncio.gather(
        *(one.claim(due, f"t{n}", instance=f"web-{n}") for n, one in enumerate(crowd))
    )

    (attempt,) = await ask.history()
    winner = int(attempt.instance.removeprefix("web-"))
    assert (await ask.claim(due, f"t{winner}")).outcome is Outcome.WON


async def test_of_16_instances_one_wins_each_of_many_slots(crowd, due):
    """G1"""

    async def claim_all(number: int, one: Asker) -> list[bool]:
        return [
            (await one.claim(due + count * SECOND, f"t{number}")).outcome is Outcome.WON
            for count in range(20)
        ]

    wins = await asyncio.gather(*(claim_all(n, one) for n, one in enumerate(crowd)))

    # an older one may be lost to all where a newer one was won first; never two
    assert all(sum(won) <= 1 for won in zip(*wins, strict=True))
    assert sum(won[-1] for won in wins) == 1


async def test_an_instance_that_was_asked_again_elsewhere_wins_once(crowd, ask, due):
    """A claim whose reply was lost is asked again, by another connection of the same instance."""
    answers = await asyncio.gather(*(one.claim(due, "same") for one in crowd))

    assert _outcomes(answers) == {Outcome.WON: 16}
    assert len(set(answers)) == 1
    assert (await ask.claim(due, "other")).outcome is Outcome.DONE


async def test_random_batches_of_many_jobs_have_one_winner_each(connect, due):
    """G1, and no two batches wait for each other."""
    jobs = [f"job-{count}" for count in range(30)]
    wins: Counter[str] = Counter()

    async def contend(number: int, one: Asker) -> None:
        random = Random(number)
        for turn in range(8):
            some = random.sample(jobs, 20)
            claims = [scheduled(due + turn * SECOND, f"{number}", job=job) for job in some]
            answers = (await one.store.claim(claims)).answers
            wins.update(
                f"{job} {turn}"
                for job, answer in zip(some, answers, strict=True)
                if answer.outcome is Outcome.WON
            )

    crowd = [Asker(await connect()) for _ in range(6)]
    await asyncio.gather(*(contend(n, one) for n, one in enumerate(crowd)))

    assert set(wins.values()) == {1}
    assert len(wins) >= len(jobs)


@needs(Feature.PROCESSES)
async def test_of_8_processes_one_wins_each_slot(harness, store):
    """G1"""
    wins = await contend(harness.url, NAMESPACE, slots=100, gap=5)

    assert len(wins) == 100
    assert set(wins.values()) == {1}


async def test_old_slots_asked_for_by_many_are_won_by_one_at_most(crowd, due):
    """G1, whatever their order."""
    slots = [due - count * MINUTE / 20 for count in range(20)]
    wins: Counter[int] = Counter()

    async def claim_all(number: int, one: Asker) -> None:
        for slot in Random(number).sample(slots, len(slots)):
            answer = await one.claim(slot, f"t{number}")
            if answer.outcome is Outcome.WON:
                wins[to_millis(slot)] += 1

    await asyncio.gather(*(claim_all(n, one) for n, one in enumerate(crowd)))

    assert wins
    assert set(wins.values()) == {1}
