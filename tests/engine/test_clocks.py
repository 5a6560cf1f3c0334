"""Whatever the clocks of the machines do, the store's decides, and no slot is lost or doubled."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from anarchon.clock import Clock
from anarchon.events import EventKind
from anarchon.scheduler import Scheduler
from anarchon.testing import Fleet
from tests.engine.bodies import Bodies, others, runner, slot, slots


def job(
    bodies: Bodies, interval: str = "10s", takes: float = 0, **options: Any
) -> Callable[[Scheduler, Clock], object]:
    def declare(scheduler: Scheduler, clock: Clock) -> object:
        return scheduler.every("sync", interval, bodies.taking(clock, takes), **options)

    return declare


@pytest.mark.parametrize("hours", [-1, -0.001, 0.001, 1, 24])
async def test_wall_clocks_that_are_off_move_no_slot(bodies: Bodies, hours: float) -> None:
    """The second instance is off by so much, the third by twice as much."""
    off = timedelta(hours=hours)
    declare = job(bodies, takes=3, jitter=0)
    async with Fleet(3, declare, clock=bodies.clock, wall_is_off_by=off) as fleet:
        await fleet.clock.advance_to(slot(305))

    assert bodies.slots() == slots(10, 300, 10)
    assert max(b.began - (b.slot - slot(0)).total_seconds() for b in bodies.all) <= 0.05


@pytest.mark.parametrize("hours", [-1, 1])
async def test_a_wall_clock_that_is_off_while_the_store_is_away_at_start_fires_nothing(
    bodies: Bodies, hours: float
) -> None:
    fleet = Fleet(1, job(bodies, jitter=0), clock=bodies.clock)
    fleet[0].clock.wall_is_off_by = timedelta(hours=hours)
    fleet[0].faults.away = True
    async with fleet:
        await fleet.clock.advance_to(slot(45))
        fleet[0].faults.away = False
        await fleet.clock.advance_to(slot(105))

    assert bodies.slots() == slots(50, 100, 10)


@pytest.mark.parametrize("hours", [-1, 1])
async def test_a_step_of_a_wall_clock_is_not_noticed(bodies: Bodies, hours: float) -> None:
    async with Fleet(2, job(bodies, takes=3), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(55))
        for member in fleet.members:
            member.clock.wall_is_off_by = timedelta(hours=hours)
        await fleet.clock.advance_to(slot(105))

        assert fleet.told(EventKind.LEASE_LOST) == []
        assert {e.reason for e in fleet.told(EventKind.SKIP)} == {"taken"}
    assert bodies.slots() == slots(10, 100, 10)


@pytest.mark.parametrize("ahead", [-0.4, -0.02, 0.02, 0.4])
async def test_a_store_that_runs_a_little_off_loses_and_doubles_nothing(
    bodies: Bodies, ahead: float
) -> None:
    """A claim that comes before its slot arms the same slot again."""
    async with Fleet(2, job(bodies, jitter=0), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(8))
        for step in range(10):
            fleet.store_is_off_by = timedelta(seconds=ahead * step)
            await fleet.clock.advance(10)

        end = slot(0) + timedelta(seconds=fleet.clock.monotonic()) + fleet.store_is_off_by
    assert bodies.slots() == slots(10, (end - slot(0)).total_seconds() // 10 * 10, 10)


@pytest.mark.parametrize("step", [3600, 86_400])
async def test_a_store_clock_set_forward_jumps_to_the_newest_slot(
    bodies: Bodies, step: float
) -> None:
    async with Fleet(2, job(bodies, jitter=0), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(35))
        fleet.store_is_off_by = timedelta(seconds=step)
        await fleet.clock.advance(100)

        missed = [e for e in fleet.told(EventKind.SKIP) if e.reason == "missed"]
    assert bodies.slots()[:3] == slots(10, 30, 10)
    # it is noticed at the next answer, and what is newest then is still in time
    assert bodies.slots()[3:] == slots(step + 30, step + 130, 10)
    assert len(missed) == 2


@pytest.mark.parametrize("step", [30, 3600, 7200])
async def test_a_store_clock_set_back_runs_no_slot_again_and_falls_silent_for_none(
    bodies: Bodies, step: float
) -> None:
    """G2: what ran has run; what is new by the clock that counts goes on."""
    async with Fleet(2, job(bodies, "1m", jitter=0), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(7215))
        ran = len(bodies.all)
        fleet.store_is_off_by = -timedelta(seconds=step)
        await fleet.clock.advance(step + 120)

        assert bodies.slots() == sorted(set(bodies.slots()))
        assert bodies.slots()[ran:] == slots(7260, 7320, 60)


async def test_a_job_declared_after_the_store_clock_was_set_back_is_not_silent(
    bodies: Bodies,
) -> None:
    async with Fleet(1, job(bodies, jitter=0), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(7205))
        fleet.store_is_off_by = -timedelta(seconds=3600)
        fleet[0].scheduler.every("new", "10s", bodies.taking(fleet[0].clock), jitter=0)
        await fleet.clock.advance(25)

    assert len(bodies.slots("new")) in (2, 3)


async def test_a_store_clock_set_back_lets_slots_nobody_claimed_run(bodies: Bodies) -> None:
    """An hour back, half an hour after this job was first seen: its next slot comes as shown."""

    async with Fleet(1, job(bodies, "1h", jitter=0), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(3500))
        fleet.store_is_off_by = -timedelta(seconds=1000)
        # something has to be asked for the step to be noticed
        fleet[0].scheduler.every("busy", "10s", bodies.taking(fleet[0].clock))
        await fleet.clock.advance_to(slot(3600 + 995))
        assert bodies.slots("sync") == []

        await fleet.clock.advance(10)

        assert bodies.slots("sync") == [slot(3600)]


async def test_a_minute_frozen_is_one_missed_and_no_replay(bodies: Bodies) -> None:
    async with Fleet(1, job(bodies, jitter=0), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(35))
        fleet[0].freeze()
        await fleet.clock.advance(60)
        fleet[0].thaw()
        await fleet.clock.advance_to(slot(125))

        skips = [(e.slot, e.reason, e.count) for e in fleet.told(EventKind.SKIP)]
    assert bodies.slots() == [*slots(10, 30, 10), *slots(90, 120, 10)]
    assert skips == [(slot(40), "late", None), (slot(90), "missed", 4)] or skips == [
        (slot(90), "missed", 4),
        (slot(40), "late", None),
    ]


async def test_a_frozen_instance_is_replaced_and_joins_again(bodies: Bodies) -> None:
    async with Fleet(2, job(bodies), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(35))
        fleet[0].freeze()
        await fleet.clock.advance(60)
        fleet[0].thaw()
        before = len(bodies.all)
        await fleet.clock.advance_to(slot(405))

    assert bodies.slots() == slots(10, 400, 10)
    assert {runner(fleet, b) for b in bodies.all[before:]} == set(fleet.members)


async def test_after_a_gap_unfinished_runs_of_others_are_found(bodies: Bodies) -> None:
    """It slept through the slot, and through the death of who ran it."""
    declare = job(bodies, "10m", 100, jitter=0, lease="15s")
    async with Fleet(2, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(590))
        sleeper = fleet[1]
        sleeper.freeze()
        await fleet.clock.advance_to(slot(650))
        fleet[0].kill()
        await fleet.clock.advance_to(slot(1000))
        sleeper.thaw()
        await fleet.clock.advance(15)

    assert [(b.slot, b.attempt) for b in bodies.all] == [(slot(600), 1), (slot(600), 2)]
    assert others(fleet, fleet[0]) == [runner(fleet, bodies.all[1])]


async def test_a_slot_missed_in_a_gap_is_caught_up_as_at_a_start(bodies: Bodies) -> None:
    declare = job(bodies, "10m", max_late="30s", catch_up="5m")
    async with Fleet(1, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(590))
        fleet[0].freeze()
        await fleet.clock.advance_to(slot(700))
        fleet[0].thaw()
        await fleet.clock.advance(20)

    assert bodies.slots() == [slot(600)]


async def test_after_a_long_freeze_a_thousand_jobs_ask_the_store_a_few_times(
    bodies: Bodies,
) -> None:
    """A laptop that wakes up does not flood its store."""

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        for number in range(1000):
            scheduler.every(f"job {number}", "1m", bodies.taking(clock), jitter=0)

    async with Fleet(1, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(30))
        fleet[0].freeze()
        await fleet.clock.advance_to(slot(3600 * 8 + 30))
        fleet[0].thaw()
        fleet[0].faults.calls.clear()
        await fleet.clock.advance(20)

        # after the gap, for what was missed, and the hourly one: each of two calls for so many
        assert fleet[0].faults.calls["active"] <= 6
        assert sum(fleet[0].faults.calls.values()) <= 20
    assert len(bodies.all) == 1000
    assert bodies.slots() == [slot(3600 * 8)] * 1000


async def test_a_blocked_loop_does_not_lose_the_slots_it_slept_through(bodies: Bodies) -> None:
    """The timers wake one and a half intervals late."""
    async with Fleet(1, job(bodies, jitter=0), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(19))
        fleet[0].clock.freeze()
        await fleet.clock.advance_to(slot(34))
        fleet[0].clock.thaw()
        await fleet.clock.advance_to(slot(65))

        skips = {(e.slot, e.reason) for e in fleet.told(EventKind.SKIP)}
    assert bodies.slots() == [slot(10), *slots(30, 60, 10)]
    assert skips == {(slot(20), "late")}


async def test_a_store_clock_set_forward_makes_one_slot_late_and_not_the_next(
    bodies: Bodies,
) -> None:
    """The answer that tells of it comes when the sleep until the next slot has begun."""
    async with Fleet(1, job(bodies, jitter=0), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(25))
        fleet.store_is_off_by = timedelta(seconds=3)
        await fleet.clock.advance_to(slot(50))

    late = [b.began + 3 - (b.slot - slot(0)).total_seconds() for b in bodies.all[2:]]
    assert [round(seconds) for seconds in late] == [3, 0, 0]
