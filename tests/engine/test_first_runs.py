"""A run at start: once for each edition of a job, whoever starts and however often."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from anarchon.clock import Clock
from anarchon.scheduler import Scheduler
from anarchon.schedules import Every
from anarchon.testing import Fleet
from tests.engine.bodies import Bodies, slot
from tests.engine.test_polled import each

FIRST = slot(0) + timedelta(milliseconds=1)


def job(
    bodies: Bodies, schedule: Any = None, takes: float = 0, **options: Any
) -> Callable[[Scheduler, Clock], object]:
    def declare(scheduler: Scheduler, clock: Clock) -> object:
        return scheduler.add(
            "sync",
            schedule if schedule is not None else Every("1h"),
            bodies.taking(clock, takes),
            **{"run_at_start": True, **options},
        )

    return declare


@pytest.mark.parametrize("size", [1, 3])
async def test_a_job_runs_once_when_it_is_first_seen(bodies: Bodies, size: int) -> None:
    async with Fleet(size, job(bodies), clock=bodies.clock) as fleet:
        await fleet.clock.advance(3500)
        assert bodies.slots() == [FIRST]
        await fleet.clock.advance(200)

    assert bodies.slots() == [FIRST, slot(3600)]


async def test_one_more_instance_and_a_restart_run_nothing_more(bodies: Bodies) -> None:
    async with Fleet(1, job(bodies), clock=bodies.clock) as fleet:
        await fleet.clock.advance(30)
        await fleet.add()
        await fleet.clock.advance(30)
        for member in fleet.members:
            await fleet.stop(member)
        await fleet.add()
        await fleet.clock.advance(30)

    assert bodies.slots() == [FIRST]


async def test_an_edit_of_the_schedule_is_a_start(bodies: Bodies) -> None:
    async with Fleet(1, job(bodies), clock=bodies.clock) as fleet:
        await fleet.clock.advance(60)
        fleet._declare = job(bodies, Every("2h"))
        await fleet.add()
        await fleet.clock.advance(60)

    first, second = bodies.slots()
    assert first == FIRST
    assert slot(60) <= second < slot(61)


async def test_it_is_taken_over_like_any_other_run(bodies: Bodies) -> None:
    async with Fleet(2, job(bodies, takes=20), clock=bodies.clock) as fleet:
        await fleet.clock.advance(5)
        fleet.member_of(bodies.all[0].ctx.instance).kill()
        await fleet.clock.advance(60)

    assert bodies.slots() == [FIRST, FIRST]
    assert bodies.attempts() == [1, 2]


async def test_who_comes_later_than_catch_up_does_not_run_it(bodies: Bodies) -> None:
    """As where the first instance was killed right after it had registered the job."""
    declare = job(bodies, catch_up="1m")
    async with Fleet(1, declare, clock=bodies.clock, jitter=0) as fleet:
        await fleet.clock.advance(0.001)
        for member in fleet.members:
            member.kill()
        before = len(bodies.all)
        await fleet.clock.advance(61)
        await fleet.add()
        await fleet.clock.advance(60)

    assert len(bodies.all) == before


async def test_a_polled_job_may_run_at_start_as_well(bodies: Bodies) -> None:
    async with Fleet(2, job(bodies, each(600)), clock=bodies.clock) as fleet:
        await fleet.clock.advance(590)
        assert bodies.slots() == [FIRST]
        await fleet.clock.advance(15)

    assert len(bodies.all) == 2


async def test_no_job_runs_at_start_unless_it_says_so(bodies: Bodies) -> None:
    async with Fleet(2, job(bodies, run_at_start=False), clock=bodies.clock) as fleet:
        await fleet.clock.advance(60)

    assert bodies.slots() == []
