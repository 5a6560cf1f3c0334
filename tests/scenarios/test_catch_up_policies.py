"""What is made up for after a time without anybody, for each pair of rules a job may have."""

from __future__ import annotations

import asyncio

import pytest

from anarchon.run import RunState
from anarchon.testing import Fleet
from tests.engine.bodies import Bodies, slot, slots
from tests.scenarios.fleets import job


@pytest.mark.parametrize("takes", [0, 90])
@pytest.mark.parametrize("catch_up", [0, "5m"])
@pytest.mark.parametrize("overlap", ["skip", "allow"])
async def test_each_pair_of_overlap_and_catch_up_does_what_both_say(
    bodies: Bodies, overlap: str, catch_up: object, takes: float
) -> None:
    """G3, G8: one slot is made up for or none, and under skip it holds back the next ones."""
    declare = job(bodies, "1m", takes, overlap=overlap, catch_up=catch_up, jitter=0)
    async with Fleet(2, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(30))
        for member in fleet.members:
            await fleet.stop(member)
        await fleet.clock.advance_to(slot(610))
        await asyncio.gather(*(member.scheduler.start() for member in fleet.members))
        await fleet.clock.advance_to(slot(955))

        ran, history = bodies.slots(), await fleet.history("sync")
    caught_up = [slot(600)] if catch_up else []
    if overlap == "allow" or takes == 0:
        assert ran == caught_up + slots(660, 900, 60)
        return
    # 610 to 700 or 660 to 750: every second slot finds the job busy
    assert ran == caught_up + (slots(720, 840, 120) if catch_up else slots(660, 900, 120))
    assert bodies.most_at_once() == 1
    skipped = {a.slot for a in history if a.state is RunState.SKIPPED}
    assert skipped == set(slots(660, 900, 60)) - set(ran)


async def test_a_catch_up_that_takes_several_periods_leaves_no_hole_behind_it(
    bodies: Bodies,
) -> None:
    """G8: the live slots do not wait for what is made up for."""
    declare = job(bodies, "10s", 35, overlap="allow", jitter=0)
    async with Fleet(1, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(5))
        await fleet.stop(fleet[0])
        await fleet.clock.advance_to(slot(101))
        await fleet._start(fleet[0])
        await fleet.clock.advance_to(slot(155))

    assert bodies.slots() == slots(100, 150, 10)


@pytest.mark.parametrize("seconds", [0.5, 3, 9, 12, 20, 34, 60])
async def test_a_start_that_takes_long_leaves_no_hole_behind_it(
    bodies: Bodies, seconds: float
) -> None:
    """G8: the newest slot that came due meanwhile, and all after it."""
    async with Fleet(1, job(bodies, "10s", jitter=0), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(5))
        await fleet.stop(fleet[0])
        await fleet.clock.advance_to(slot(57))
        fleet[0].faults.silent = True
        starting = asyncio.create_task(fleet[0].scheduler.start())
        await fleet.clock.advance(seconds)
        fleet[0].faults.silent = False
        await fleet.clock.advance_until(lambda: fleet[0].scheduler.is_ready)
        ready = fleet.clock.monotonic()
        await starting
        await fleet.clock.advance_to(slot(205))

    newest = ready // 10 * 10
    assert bodies.slots() == slots(newest, 200, 10)


async def test_slots_to_come_do_not_wait_for_a_hundred_thousand_that_were_missed(
    bodies: Bodies,
) -> None:
    """G8: there is no filling up from behind."""
    async with Fleet(1, job(bodies, "1s", jitter=0), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(2.5))
        fleet[0].kill()
        await fleet.clock.advance_to(slot(100_000.5))
        second = await fleet.add()
        assert sum(second.faults.calls.values()) <= 4
        await fleet.clock.advance_to(slot(100_010.5))

    late = [b.began - (b.slot - slot(0)).total_seconds() for b in bodies.all[3:]]
    assert bodies.slots()[2:] == slots(100_000, 100_010, 1)
    assert max(late) <= 0.05
