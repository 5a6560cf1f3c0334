"""After a time in which nobody was up, the newest slot runs once, if it is recent enough."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from anarchon.clock import Clock
from anarchon.run import RunState
from anarchon.scheduler import Scheduler
from anarchon.testing import Fleet
from tests.engine.bodies import Bodies, slot


def job(
    bodies: Bodies, interval: str = "1m", takes: float = 0, **options: Any
) -> Callable[[Scheduler, Clock], object]:
    def declare(scheduler: Scheduler, clock: Clock) -> object:
        return scheduler.every("sync", interval, bodies.taking(clock, takes), **options)

    return declare


async def all_down(fleet: Fleet, until: float) -> None:
    """Stop everybody, and start everybody again at a moment."""
    for member in fleet.members:
        await fleet.stop(member)
    await fleet.clock.advance_to(slot(until))
    starting = [asyncio.create_task(member.scheduler.start()) for member in fleet.members]
    await fleet.clock.advance(0.1)
    await asyncio.gather(*starting)


@pytest.mark.parametrize("size", [1, 3])
async def test_after_downtime_the_newest_slot_runs_once_and_nothing_older(
    bodies: Bodies, size: int
) -> None:
    """G8."""
    async with Fleet(size, job(bodies), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(61))
        await all_down(fleet, until=600 + 30)
        await fleet.clock.advance(20)

    assert bodies.slots() == [slot(60), slot(600)]


@pytest.mark.parametrize(("down_until", "runs"), [(3600 + 119, True), (3600 + 121, False)])
async def test_a_slot_is_caught_up_within_catch_up_only(
    bodies: Bodies, down_until: float, runs: bool
) -> None:
    """G8."""
    declare = job(bodies, "1h", catch_up="2m", jitter=0)
    async with Fleet(2, declare, clock=bodies.clock) as fleet:
        await all_down(fleet, until=down_until)
        await fleet.clock.advance(60)

    assert bodies.slots() == ([slot(3600)] if runs else [])


async def test_nothing_is_caught_up_where_catch_up_is_zero(bodies: Bodies) -> None:
    async with Fleet(1, job(bodies, catch_up=0), clock=bodies.clock) as fleet:
        await all_down(fleet, until=61)
        await fleet.clock.advance(30)

    assert bodies.slots() == []


async def test_a_job_first_seen_now_has_nothing_to_catch_up(bodies: Bodies) -> None:
    """G8: not before it was first seen."""
    async with Fleet(2, job(bodies), clock=bodies.clock) as fleet:
        await fleet.clock.advance(50)

    assert bodies.slots() == []


async def test_a_slot_missed_by_its_first_edition_is_not_caught_up_by_another(
    bodies: Bodies,
) -> None:
    """An edit does not make the slots of the new schedule before it missed ones. F12."""
    intervals = iter(["1h", "7m"])

    async with Fleet(
        1, lambda s, c: job(bodies, next(intervals))(s, c), clock=bodies.clock
    ) as fleet:
        await fleet.clock.advance_to(slot(420 + 60))
        await fleet.stop(fleet[0])
        await fleet.add()
        await fleet.clock.advance(60)

    assert bodies.slots() == []


async def test_a_slot_that_ran_is_not_caught_up(bodies: Bodies) -> None:
    """G2."""
    async with Fleet(2, job(bodies), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(61))
        await all_down(fleet, until=90)
        await fleet.clock.advance(20)

    assert bodies.slots() == [slot(60)]


async def test_a_slot_that_comes_due_while_starting_is_not_lost(bodies: Bodies) -> None:
    """Recovery ends and the timers begin at one moment, however long the store takes."""
    async with Fleet(1, job(bodies, jitter=0), clock=bodies.clock) as fleet:
        await fleet.stop(fleet[0])
        await fleet.clock.advance_to(slot(59))
        fleet[0].faults.silent = True
        starting = asyncio.create_task(fleet[0].scheduler.start())
        await fleet.clock.advance(4)
        fleet[0].faults.silent = False
        await fleet.clock.advance(20)
        await starting

    assert bodies.slots() == [slot(60)]


async def test_a_run_that_had_started_and_is_the_newest_is_taken_over_whatever_its_age(
    bodies: Bodies,
) -> None:
    """G8."""
    declare = job(bodies, "1d", takes=100, catch_up="1m")
    async with Fleet(1, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(86_410))
        fleet[0].kill()
        await fleet.clock.advance_to(slot(86_400 * 1.9))
        await fleet.add()
        await fleet.clock.advance(5)

    assert [(b.slot, b.attempt) for b in bodies.all] == [(slot(86_400), 1), (slot(86_400), 2)]


async def test_a_run_that_had_started_gives_way_to_a_newer_slot(bodies: Bodies) -> None:
    """G8: nothing older runs; the claim of the newer slot ends the older run."""
    declare = job(bodies, "10m", takes=100)
    async with Fleet(1, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(610))
        fleet[0].kill()
        await fleet.clock.advance_to(slot(1260))
        await fleet.add()
        await fleet.clock.advance(120)

        history = await fleet.history("sync")
    assert [(b.slot, b.attempt) for b in bodies.all] == [(slot(600), 1), (slot(1200), 1)]
    assert [a.state for a in history] == [RunState.LOST, RunState.SUCCESS]


async def test_an_older_run_waits_for_the_next_claim_where_the_newest_slot_is_too_old(
    bodies: Bodies,
) -> None:
    """G8: neither the one that had started, nor the one that was missed."""
    declare = job(bodies, "1h", takes=100, catch_up="5m")
    async with Fleet(1, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(3610))
        fleet[0].kill()
        await fleet.clock.advance_to(slot(7200 + 1800))
        await fleet.add()
        await fleet.clock.advance_to(slot(10_800 + 200))

        history = await fleet.history("sync")
    assert [(b.slot, b.attempt) for b in bodies.all] == [(slot(3600), 1), (slot(10_800), 1)]
    assert [a.state for a in history] == [RunState.LOST, RunState.SUCCESS]


async def test_runs_that_may_overlap_are_all_taken_over_after_downtime(bodies: Bodies) -> None:
    declare = job(bodies, "1m", takes=150, overlap="allow", catch_up=0, max_late="1m")
    async with Fleet(1, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(130))
        fleet[0].kill()
        await fleet.clock.advance_to(slot(305))
        await fleet.add()
        await fleet.clock.advance(20)

    assert sorted(b.slot for b in bodies.all if b.attempt == 2) == [slot(60), slot(120)]


async def test_a_released_run_is_taken_over_at_the_next_start(bodies: Bodies) -> None:
    declare = job(bodies, "1h", takes=100)
    async with Fleet(1, declare, clock=bodies.clock, grace=0) as fleet:
        await fleet.clock.advance_to(slot(3650))
        await all_down(fleet, until=5000)
        await fleet.clock.advance(101)

        history = await fleet.history("sync")
    assert [a.state for a in history] == [RunState.INTERRUPTED, RunState.SUCCESS]


async def test_after_a_night_without_anybody_one_slot_runs_and_the_start_is_quick(
    bodies: Bodies,
) -> None:
    """A million missed slots are one."""
    async with Fleet(1, job(bodies, "1s"), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(5.5))
        fleet[0].kill()
        await fleet.clock.advance_to(slot(1_000_005.5))
        second = await fleet.add()
        calls = sum(second.faults.calls.values())
        await fleet.clock.advance_to(slot(1_000_007.5))

    assert calls <= 4
    assert bodies.slots()[-3:] == [slot(1_000_005), slot(1_000_006), slot(1_000_007)]
    assert len(bodies.all) == 5 + 3


async def test_a_moment_that_was_past_when_it_was_first_seen_is_warned_of(
    bodies: Bodies, caplog: pytest.LogCaptureFixture
) -> None:
    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.at("once", slot(-1), bodies.taking(clock))

    async with Fleet(1, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance(60)

    assert "a job that will never run: job=once" in caplog.text
    assert bodies.all == []


async def test_a_moment_that_came_since_it_was_first_seen_is_not_warned_of(
    bodies: Bodies, caplog: pytest.LogCaptureFixture
) -> None:
    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.at("once", slot(30), bodies.taking(clock))

    async with Fleet(1, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(40))
        fleet[0].kill()
        await fleet.clock.advance_to(slot(3600))
        await fleet.add()
        await fleet.clock.advance(60)

    assert "a job that will never run" not in caplog.text
    assert bodies.slots() == [slot(30)]


async def test_a_slot_that_comes_due_while_the_first_answer_is_on_its_way_is_not_lost(
    bodies: Bodies,
) -> None:
    """Recovery looked at the time of the answer, and the timers go on from there."""
    async with Fleet(1, job(bodies, jitter=0), clock=bodies.clock) as fleet:
        await fleet.stop(fleet[0])
        await fleet.clock.advance_to(slot(58))
        pass_on = fleet[0].faults.pass_on

        async def slowly(verb: str, call: Any) -> Any:
            reply = await pass_on(verb, call)
            if verb == "active":
                await bodies.clock.sleep(4)
            return reply

        fleet[0].faults.pass_on = slowly  # type: ignore[method-assign]
        starting = asyncio.create_task(fleet[0].scheduler.start())
        await fleet.clock.advance(20)
        await starting

    assert bodies.slots() == [slot(60)]


async def test_a_slot_from_before_an_edit_is_not_caught_up_after_a_gap_either(
    bodies: Bodies,
) -> None:
    """The new edition was first seen after its slot of 420 s, and then frozen."""
    intervals = iter(["1h", "7m"])

    async with Fleet(
        1,
        lambda s, c: job(bodies, next(intervals), max_late="30s")(s, c),
        clock=bodies.clock,
    ) as fleet:
        await fleet.clock.advance_to(slot(420 + 5))
        await fleet.stop(fleet[0])
        edited = await fleet.add()
        await fleet.clock.advance(10)
        edited.freeze()
        await fleet.clock.advance(90)
        edited.thaw()
        await fleet.clock.advance(60)

    assert bodies.slots() == []
