"""Stores with one flaw each, and the checker, which must find every one of them from outside.

It sees what ran, when, and what befell whom; of the store it sees nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from random import Random

import pytest

from anarchon.backends.memory import MemoryBackend
from anarchon.schedules import Every
from anarchon.testing.checker import check
from anarchon.testing.evidence import Fault
from anarchon.testing.simulator import Labour, Machine, Task, World
from anarchon.testing.verdict import Kind, Verdict
from tests.simulation import known_bad
from tests.simulation.judging import PATIENCE
from tests.simulation.plans import Plan

START = datetime(2026, 1, 1, 11, 3, 30, tzinfo=UTC)


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


class Story:
    """Three machines, one job that takes its time, and what befalls them; one minute is a slot."""

    def __init__(self, store: Callable[..., MemoryBackend], *, every: float, takes: float) -> None:
        self.world = World(Random(1), start=START, store=store, lease=5, max_attempts=9)
        task = Task("job", Every(every), lambda: Labour(takes, heeds=False))
        for _ in range(3):
            self.world.add_machine([task])

    def tell(self, what_happens: Callable[[Story], Awaitable[None]]) -> Verdict:
        """Let it happen, and return what the checker says."""

        async def main() -> None:
            for machine in self.world.machines:
                await machine.start()
            await what_happens(self)

        self.world.run(main)
        return check(self.world.evidence(), patience=PATIENCE)

    async def sleep(self, seconds: float) -> None:
        await self.world.clock.sleep(seconds)

    def runner(self) -> Machine:
        """Return who started the newest body."""
        newest = self.world.evidence().bodies[-1]
        return next(m for m in self.world.machines if m.instance == newest.instance)

    async def freeze(self, machine: Machine, seconds: float) -> None:
        since = self.world.now()
        machine.freeze()
        await self.sleep(seconds)
        machine.thaw()
        self.world.trouble(Fault.FROZEN, since, machine)


async def a_frozen_runner_comes_back(story: Story) -> None:
    """Its successor works past the next slot; the end it says itself comes before that."""
    await story.sleep(31)
    await story.freeze(story.runner(), 20)
    await story.sleep(80)


async def its_successor_dies_too(story: Story) -> None:
    """What came back works on, and must not keep the run of the dead from a third."""
    await story.sleep(91)
    await story.freeze(story.runner(), 20)
    await story.sleep(2)
    story.runner().kill()
    await story.sleep(60)


@pytest.mark.parametrize(
    ("store", "kind", "every", "takes", "what_happens"),
    [
        pytest.param(
            known_bad.EndsForAnybody, Kind.OVERLAP, 60, 58, a_frozen_runner_comes_back, id="ends"
        ),
        pytest.param(
            known_bad.RenewsForAnybody, Kind.MISSED, 300, 200, its_successor_dies_too, id="renews"
        ),
    ],
)
def test_a_store_that_listens_to_a_former_holder_is_found_out(
    store, kind, every, takes, what_happens
) -> None:
    """G4, G6: with the same story on a store without the flaw, nothing is found."""
    flawed = Story(store, every=every, takes=takes).tell(what_happens)
    sound = Story(MemoryBackend, every=every, takes=takes).tell(what_happens)

    assert kind in {finding.kind for finding in flawed.findings}, str(flawed)
    assert sound.holds, str(sound)
    assert sound.takeovers >= 1


@pytest.mark.parametrize(
    ("store", "kinds"),
    [
        (known_bad.ForgetsSlots, {Kind.DOUBLED}),
        (known_bad.Overlaps, {Kind.OVERLAP}),
        (known_bad.IsNeverLate, {Kind.EXTRA, Kind.LATE}),
        (known_bad.GivesRunsAway, {Kind.DOUBLED, Kind.OVERLAP}),
        (known_bad.NeverGivesBack, {Kind.MISSED}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
@pytest.mark.timeout(120)
def test_a_store_with_a_flaw_is_found_out_by_random_days(store, kinds) -> None:
    """G2, G3, G6."""
    for seed in range(30):
        evidence = Plan(seed, store=store).run().evidence
        found = {finding.kind for finding in check(evidence, patience=PATIENCE).findings}
        if found:
            assert found & kinds
            return
    pytest.fail("no seed showed it")
