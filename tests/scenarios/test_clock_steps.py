"""A clock is wrong or is set, by minutes, an hour, or exactly a day."""

from __future__ import annotations

from datetime import timedelta

import pytest

from anarchon.clock import Clock
from anarchon.events import EventKind
from anarchon.scheduler import Scheduler
from anarchon.testing import Fleet
from tests.engine.bodies import Bodies, runner, slot, slots
from tests.scenarios.fleets import job

DAY = 86_400
LEASE, HEARTBEAT = 15, 5


@pytest.mark.parametrize("step", [-DAY, -3600, 3600, DAY])
async def test_a_step_of_every_wall_clock_moves_no_slot(bodies: Bodies, step: float) -> None:
    """G2: the machines' clocks are not asked once the store has answered."""
    async with Fleet(2, job(bodies, "1m", 3, jitter=0), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(601))
        for member in fleet.members:
            member.clock.wall_is_off_by = timedelta(seconds=step)
            member.faults.calls.clear()
        await fleet.clock.advance_to(slot(905))

        assert fleet.told(EventKind.LEASE_LOST) == []
        assert max(sum(m.faults.calls.values()) for m in fleet.members) <= 30
    assert bodies.slots() == slots(60, 900, 60)


async def test_a_store_clock_set_back_by_a_day_runs_no_slot_again(bodies: Bodies) -> None:
    """G2: and when the old time is reached, the job goes on."""
    async with Fleet(2, job(bodies, "30m", jitter=0), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(3630))
        fleet.store_is_off_by = -timedelta(seconds=DAY)
        await fleet.clock.advance(DAY + 3600)

    assert bodies.slots() == slots(1800, 7200, 1800)


async def test_a_store_clock_set_forward_by_a_day_and_back_again_runs_no_slot_twice(
    bodies: Bodies,
) -> None:
    """G2: what ran while the clock was ahead does not run when its time has really come."""
    async with Fleet(2, job(bodies, "30m", jitter=0), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(3630))
        fleet.store_is_off_by = timedelta(seconds=DAY)
        await fleet.clock.advance_to(slot(7230))
        # a step is noticed by the next answer: that to the claim of a slot, or to upkeep
        assert bodies.slots()[-2:] == slots(DAY + 5400, DAY + 7200, 1800)

        fleet.store_is_off_by = timedelta(0)
        await fleet.clock.advance_to(slot(DAY + 9030))
    assert bodies.slots() == sorted(set(bodies.slots()))
    assert set(slots(10_800, DAY + 9000, 1800)) - set(bodies.slots()) <= {slot(DAY + 3600)}


@pytest.mark.parametrize("minutes", [-5, 5])
async def test_leases_are_judged_alike_by_whoever_has_a_wrong_clock(
    bodies: Bodies, minutes: int
) -> None:
    """G1, G6: neither sooner than the lease nor later than two heartbeats after it."""
    off = timedelta(minutes=minutes)
    declare = job(bodies, "10m", 3 * LEASE, lease=LEASE, jitter=0)
    async with Fleet(3, declare, clock=bodies.clock, wall_is_off_by=off) as fleet:
        await fleet.clock.advance_to(slot(600 + 2 * LEASE + 1))
        assert bodies.attempts() == [1]
        runner(fleet, bodies.all[0]).kill()
        renewed = 600 + 2 * LEASE
        await fleet.clock.advance_until(lambda: len(bodies.all) == 2)

        took = bodies.all[1].began - renewed
        assert LEASE <= took <= LEASE + 2 * HEARTBEAT + 0.1
        await fleet.clock.advance(4 * LEASE)
    assert bodies.attempts() == [1, 2]


@pytest.mark.parametrize("step", [-3600, 3600])
@pytest.mark.parametrize("fault", ["away", "silent"])
async def test_a_store_that_restarts_with_another_time_stops_no_scheduler(
    bodies: Bodies, fault: str, step: float
) -> None:
    """G2: an outage and a step at once."""
    async with Fleet(2, job(bodies, "1m", jitter=0), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(7210))
        for member in fleet.members:
            setattr(member.faults, fault, True)
        await fleet.clock.advance(60)
        fleet.store_is_off_by = timedelta(seconds=step)
        for member in fleet.members:
            setattr(member.faults, fault, False)
        await fleet.clock.advance(max(0.0, -step) + 240)

    assert bodies.slots() == sorted(set(bodies.slots()))
    last = 7210 + 60 + max(0.0, -step) + 240 + step
    first = last // 60 * 60 - 120
    assert bodies.slots()[-3:] == slots(first, first + 120, 60)


@pytest.mark.parametrize("how", ["suspend", "store"])
async def test_a_leap_of_eight_hours_asks_the_store_a_few_times(bodies: Bodies, how: str) -> None:
    """G8: a laptop that was closed for the night, or a clock that was set."""

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        for number in range(100):
            scheduler.every(f"job {number}", "1m", bodies.taking(clock), jitter=0)

    night = 8 * 3600
    async with Fleet(1, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(90))
        if how == "suspend":
            fleet[0].freeze()
            await fleet.clock.advance(night)
            fleet[0].thaw()
        else:
            fleet.store_is_off_by = timedelta(seconds=night)
        fleet[0].faults.calls.clear()
        await fleet.clock.advance(125)

        calls = sum(fleet[0].faults.calls.values())
    # a claim and an end for each of some slots, and looks for what was missed; after a suspend the
    # newest of the night is caught up, after a step the one that is due when it is noticed
    assert calls <= 20
    for number in range(100):
        ran = bodies.slots(f"job {number}")
        assert ran[0] == slot(60)
        first = night + (60 if how == "suspend" else 120)
        assert ran[1:] == slots(first, night + 180, 60)


async def test_a_suspend_without_catch_up_replays_nothing(bodies: Bodies) -> None:
    """G8: nothing missed is run where ``catch_up`` is 0, and what was seen late is late."""
    declare = job(bodies, "1h", catch_up=0, jitter=0)
    async with Fleet(1, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(3500))
        fleet[0].freeze()
        await fleet.clock.advance_to(slot(9 * 3600 + 1800))
        fleet[0].thaw()
        await fleet.clock.advance_to(slot(10 * 3600 - 1))
        assert bodies.all == []
        await fleet.clock.advance(2)

    assert bodies.slots() == [slot(10 * 3600)]
