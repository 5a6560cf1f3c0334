"""Instances are stopped, replaced and given another edition, right at the moment of a slot."""

from __future__ import annotations

import pytest

from anarchon.clock import Clock
from anarchon.events import EventKind
from anarchon.run import RunState
from anarchon.scheduler import Scheduler
from anarchon.testing import Fleet
from tests.engine.bodies import Bodies, runner, slot, slots
from tests.scenarios.fleets import job


@pytest.mark.parametrize("stopped", [59.5, 59.957, 59.999, 60.0])
@pytest.mark.parametrize("started", [60.001, 60.5, 62])
async def test_a_slot_between_the_old_instance_and_the_new_one_runs_once(
    bodies: Bodies, stopped: float, started: float
) -> None:
    """G8: nobody was up when it came due."""
    async with Fleet(1, job(bodies, "1m", jitter=0), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(stopped))
        await fleet.stop(fleet[0])
        await fleet.clock.advance_to(slot(max(started, fleet.clock.monotonic())))
        await fleet.add()
        await fleet.clock.advance_to(slot(90))

    assert bodies.slots() == [slot(60)]


@pytest.mark.parametrize("takes", [0, 3])
async def test_a_rolling_restart_across_slots_loses_and_doubles_none(
    bodies: Bodies, takes: float
) -> None:
    """G2, G7: three instances are replaced one after the other, without a pause."""
    async with Fleet(3, job(bodies, "2s", takes / 3), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(9.7))
        for number in range(12):
            await fleet.stop(fleet[number])
            await fleet.add()
            await fleet.clock.advance(0.37)
        end = fleet.clock.monotonic() // 2 * 2 + 10
        await fleet.clock.advance_to(slot(end + 1.5))

        assert bodies.slots() == slots(2, end, 2)
        assert {a.state for a in await fleet.history("sync")} == {RunState.SUCCESS}


async def test_whoever_ran_last_is_killed_each_time_and_every_slot_runs(bodies: Bodies) -> None:
    """G1, G6."""
    async with Fleet(2, job(bodies, "1m", 3, jitter=0), clock=bodies.clock) as fleet:
        for minute in range(1, 11):
            await fleet.clock.advance_to(slot(60 * minute + 10))
            runner(fleet, bodies.all[-1]).kill()
            await fleet.add()
        await fleet.clock.advance_to(slot(670))

    assert bodies.slots() == slots(60, 660, 60)
    assert len({body.ctx.instance for body in bodies.all}) == 11


async def test_a_coroutine_keeps_its_lease_through_a_stop_of_several_leases(
    bodies: Bodies,
) -> None:
    """G1: until it ends or its grace is over."""
    declare = job(bodies, "10m", 60, lease="15s", jitter=0)
    async with Fleet(2, declare, clock=bodies.clock, grace="2m") as fleet:
        await fleet.clock.advance_to(slot(602))
        await fleet.stop(runner(fleet, bodies.all[0]))
        assert fleet.clock.monotonic() == pytest.approx(660, abs=0.5)
        await fleet.clock.advance(60)

        [attempt] = await fleet.history("sync")
    assert attempt.state is RunState.SUCCESS


async def test_slots_of_the_old_text_do_not_run_under_the_new_one(bodies: Bodies) -> None:
    """G8, G11: a slot was due, unclaimed, when the schedule was edited."""
    intervals = iter(["10m", "7m"])

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("sync", next(intervals), bodies.taking(clock), jitter=0)

    async with Fleet(1, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(599.9))
        fleet[0].kill()
        await fleet.clock.advance_to(slot(600.1))
        await fleet.add()
        await fleet.clock.advance_to(slot(1700))

    assert bodies.slots() == slots(840, 1680, 420)


async def test_an_edit_back_and_forth_makes_up_for_no_slot_of_the_time_between(
    bodies: Bodies,
) -> None:
    """G8: coming back to the old text after hours is a new edition."""
    intervals = iter(["10m", "7m", "10m"])

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("sync", next(intervals), bodies.taking(clock), jitter=0)

    async with Fleet(1, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(30))
        await fleet.stop(fleet[0])
        await fleet.add()
        end = 5 * 3600 + 60
        await fleet.clock.advance_to(slot(end))
        await fleet.stop(fleet[1])
        ran = len(bodies.all)
        await fleet.add()
        await fleet.clock.advance(120)

    assert bodies.slots() == slots(420, end // 420 * 420, 420)
    assert len(bodies.all) == ran


async def test_a_job_that_nobody_declares_any_more_does_not_run(bodies: Bodies) -> None:
    """G8: renamed: the new name has nothing to catch up, the old one has nobody."""
    names = iter(["old name", "new name", "new name"])

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every(next(names), "1m", bodies.taking(clock, 100), jitter=0)

    async with Fleet(1, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(65))
        await fleet.add()
        await fleet.add()
        fleet[0].kill()
        await fleet.clock.advance_to(slot(1000))

    assert bodies.slots("old name") == [slot(60)]
    assert bodies.slots("new name")[0] == slot(120)


async def test_two_editions_at_once_run_each_slot_of_either_once(bodies: Bodies) -> None:
    """G1, G2: as long as both are deployed; a slot of both is one slot."""
    intervals = iter(["10s", "15s", "10s", "15s"])

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("sync", next(intervals), bodies.taking(clock))

    async with Fleet(4, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(125))
        for old in (fleet[0], fleet[2]):
            await fleet.stop(old)
        await fleet.clock.advance_to(slot(245))

    both = {*slots(10, 120, 10), *slots(15, 120, 15)}
    assert bodies.slots() == sorted({*both, *slots(135, 240, 15)})


async def test_an_instance_is_known_to_the_store_before_it_asks_for_a_slot(
    bodies: Bodies,
) -> None:
    """And its claim and its lease are one: no peer can find a run without somebody behind it."""
    order: list[str] = []
    fleet = Fleet(1, job(bodies, "1s", jitter=0), clock=bodies.clock)
    pass_on = fleet[0].faults.pass_on

    async def noted(verb: str, call: object) -> object:
        order.append(verb)
        return await pass_on(verb, call)  # type: ignore[arg-type]

    fleet[0].faults.pass_on = noted  # type: ignore[method-assign, assignment]
    async with fleet:
        await fleet.clock.advance_to(slot(3.5))
        assert fleet.told(EventKind.TAKEOVER) == []

    assert order[:3] == ["open", "active", "claim"]
