"""An instance comes late to a slot: slow timers, a stalled loop, a slow way to the store.

The body takes no time, or its lease is long gone, when the laggard asks: what keeps it from
running the slot again is the record of the slot, not a lock.
"""

from __future__ import annotations

import asyncio

import pytest

from anarchon.clock import Clock
from anarchon.events import EventKind
from anarchon.scheduler import Scheduler
from anarchon.testing import Fleet, InstanceClock
from tests.engine.bodies import Bodies, slot, slots
from tests.scenarios.fleets import Ask, job, on_the_way, slow_down

PERIOD = 10


@pytest.mark.parametrize("takes", [0, 1])
@pytest.mark.parametrize("late", [n / 10 for n in range(10)])
async def test_whoever_is_late_by_any_part_of_the_period_finds_the_slot_done(
    bodies: Bodies, late: float, takes: float
) -> None:
    """G2."""
    async with Fleet(2, job(bodies, takes=takes, jitter=0), clock=bodies.clock) as fleet:
        for n in range(1, 4):
            await fleet.clock.advance_to(slot(PERIOD * n - 0.5))
            fleet[1].freeze()
            await fleet.clock.advance_to(slot(PERIOD * (n + late)))
            fleet[1].thaw()
        await fleet.clock.advance_to(slot(PERIOD * 5 - 1))

    assert bodies.slots() == slots(PERIOD, PERIOD * 4, PERIOD)


@pytest.mark.parametrize("takes", [0, 1])
@pytest.mark.parametrize("late", [0.02, 0.5, 2, 4.9, 7, 9.9])
async def test_a_claim_that_was_long_on_the_way_finds_the_slot_done(
    bodies: Bodies, late: float, takes: float
) -> None:
    """G2: it was sent in time, and arrives after the run, whether or not anybody waits for it."""
    async with Fleet(2, job(bodies, takes=takes, jitter=0), clock=bodies.clock) as fleet:
        laggard = fleet[1]

        async def hold_up(verb: str, ask: Ask) -> object:
            async def arrive() -> object:
                await laggard.clock.sleep(late)
                return await ask()

            if verb != "claim":
                return await ask()
            # whoever gives the call up does not take the request back
            return await asyncio.shield(asyncio.create_task(arrive(), name="anarchon-wire"))

        on_the_way(laggard, hold_up)
        await fleet.clock.advance_to(slot(PERIOD * 10 - 0.5))

        history = await fleet.history("sync")
    assert bodies.slots() == slots(PERIOD, PERIOD * 9, PERIOD)
    assert {body.ctx.instance for body in bodies.all} == {history[0].instance}
    assert [a.attempt for a in history] == [1] * 9


@pytest.mark.parametrize("periods", [0.5, 1, 1.5, 2.5, 3, 5])
async def test_a_poll_that_is_late_by_some_periods_doubles_nothing_and_loses_nothing_after(
    bodies: Bodies, periods: float
) -> None:
    """G2: alone, the newest slot that may still start is run."""
    async with Fleet(1, job(bodies, jitter=0), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(PERIOD * 3 - 1))
        fleet[0].clock.freeze()
        thaw = PERIOD * (3 + periods)
        await fleet.clock.advance_to(slot(thaw))
        fleet[0].clock.thaw()
        await fleet.clock.advance_to(slot(PERIOD * 12 + 5))

        told = {e.slot for e in fleet.told(EventKind.SKIP)}
    newest = thaw // PERIOD * PERIOD
    assert bodies.slots() == sorted(set(bodies.slots()))
    assert set(slots(newest, PERIOD * 12, PERIOD)) <= set(bodies.slots())
    # what was not run is told: one by one, or as a number that were missed before a slot
    assert bodies.slots()[:2] == slots(PERIOD, PERIOD * 2, PERIOD)
    assert told or periods <= 1


async def test_instances_that_poll_at_moments_of_their_own_run_each_slot_once(
    bodies: Bodies,
) -> None:
    """G1, G2: whatever the distance from each to the store, and the jitter of each."""
    ways = [0.0, 0.3, 0.9, 1.7]
    jitters = iter(["0s", "900ms", "300ms", "1s"])

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("sync", "10s", bodies.taking(clock, 0.2), jitter=next(jitters))

    async with Fleet(len(ways), declare, clock=bodies.clock) as fleet:
        for member, way in zip(fleet.members, ways, strict=True):
            slow_down(member, way)
        await fleet.clock.advance_to(slot(1005))

    assert bodies.slots() == slots(10, 1000, 10)


async def test_an_instance_that_comes_back_after_six_hours_replays_nothing(
    bodies: Bodies,
) -> None:
    """G2, G8: what it remembers is old, and the others have gone on."""
    async with Fleet(2, job(bodies, "5m", jitter=0), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(400))
        fleet[0].freeze()
        await fleet.clock.advance_to(slot(6 * 3600 + 400))
        fleet[0].thaw()
        fleet[0].faults.calls.clear()
        await fleet.clock.advance(60)
        assert sum(fleet[0].faults.calls.values()) <= 10
        await fleet.clock.advance_to(slot(7 * 3600 + 100))

    assert bodies.slots() == slots(300, 7 * 3600, 300)


@pytest.mark.parametrize("early", [0.001, 0.010, 0.013])
async def test_timers_that_wake_early_lose_and_double_nothing(bodies: Bodies, early: float) -> None:
    """G11: a slot comes from the slot before it, never from the moment somebody woke up."""
    async with Fleet(2, job(bodies, "1s", jitter=0), clock=bodies.clock) as fleet:
        for member in fleet.members:
            wake_early(member.clock, early)
        await fleet.clock.advance_to(slot(100.5))

    assert bodies.slots() == slots(1, 100, 1)
    assert min(b.began - (b.slot - slot(0)).total_seconds() for b in bodies.all) >= 0


def wake_early(clock: InstanceClock, early: float) -> None:
    call_later = clock.call_later
    # the shortest ones are left alone, or time would stand still
    clock.call_later = lambda seconds, callback: call_later(  # type: ignore[method-assign]
        seconds - early if seconds > 3 * early else seconds, callback
    )
