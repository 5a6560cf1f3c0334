"""A process lives, and its loop is dead: whoever asks hears how long ago it woke."""

from __future__ import annotations

import asyncio

from anarchon.testing import Fleet
from tests.engine.bodies import Bodies, slot
from tests.scenarios.fleets import job


async def test_timers_that_hang_are_seen_from_outside_and_an_idle_scheduler_is_not_taken_for_one(
    bodies: Bodies,
) -> None:
    async with Fleet(1, job(bodies, "365d"), clock=bodies.clock) as fleet:
        scheduler = fleet[0].scheduler
        for minute in range(1, 31):
            await fleet.clock.advance_to(slot(60 * minute))
            assert scheduler.seconds_since_woken() <= 60

        [timers] = [t for t in asyncio.all_tasks() if t.get_name() == "anarchon-timers"]
        timers.cancel()
        await fleet.clock.advance(130)
        assert scheduler.seconds_since_woken() > 120


async def test_a_loop_that_stands_still_is_seen_from_outside(bodies: Bodies) -> None:
    async with Fleet(1, job(bodies, "10s"), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(35))
        fleet[0].clock.freeze()
        await fleet.clock.advance(300)
        assert fleet[0].scheduler.seconds_since_woken() > 290

        fleet[0].clock.thaw()
        await fleet.clock.advance(11)
        assert fleet[0].scheduler.seconds_since_woken() <= 10
