"""Nothing begins under a lease that may be another's by then."""

from __future__ import annotations

import time
from datetime import timedelta

from anarchon import RunContext, Scheduler
from anarchon.backends.memory import MemoryBackend
from anarchon.clock import Clock, SystemClock
from anarchon.testing import FaultyBackend, Fleet
from tests.engine.bodies import Bodies, slot


async def test_a_coroutine_does_not_begin_once_the_loop_was_held_up_for_a_lease() -> None:
    """S4: it was won in time, but its first line waited for the loop."""
    faults = FaultyBackend(MemoryBackend())
    began: list[str] = []
    clock = SystemClock()
    scheduler = Scheduler(faults, lease="1s", jitter=0)
    moment = (clock.wall() + timedelta(seconds=1)).replace(microsecond=0)

    async def holds_up(ctx: RunContext) -> None:
        began.append(ctx.job)
        faults.away = True  # no renewal is answered meanwhile
        time.sleep(1.2)  # noqa: TID251, ASYNC251 - a handler that blocks the loop

    scheduler.at("a", moment, holds_up)
    scheduler.at("b", moment, holds_up)
    lost: list[str] = []
    scheduler.on("interrupted", lambda event: lost.append(f"{event.job} {event.reason}"))

    async with scheduler:
        await clock.sleep(3)
        faults.away = False

    assert began == ["a"]
    assert lost == ["b lease_lost"]


async def test_a_run_that_is_caught_up_when_it_is_too_late_for_others_has_backups(
    bodies: Bodies,
) -> None:
    """G6: ``max_late`` ends before ``catch_up``; who was late goes on looking until that."""

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("sync", "10m", bodies.taking(clock, 30), max_late="20s", lease="1m")

    async with Fleet(1, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(590))
        fleet[0].freeze()
        await fleet.clock.advance_to(slot(630))
        fleet[0].thaw()  # too late for the slot, and not long enough for a gap
        await fleet.clock.advance_to(slot(700))
        second = await fleet.add()
        await fleet.clock.advance_to(slot(715))
        caught_up = [body.ctx.instance for body in bodies.all]
        second.kill()
        await fleet.clock.advance_to(slot(900))

    assert len(caught_up) == 1
    assert fleet.member_of(caught_up[0]) is second
    assert [body.ctx.attempt for body in bodies.all] == [1, 2]
