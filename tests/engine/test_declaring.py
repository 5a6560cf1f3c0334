"""Jobs may be declared at any time, and may differ between instances."""

import asyncio
import logging
from datetime import timedelta
from typing import Any

import pytest

from anarchon.clock import Clock
from anarchon.errors import ConfigurationError, DuplicateJob
from anarchon.events import EventKind
from anarchon.run import RunContext
from anarchon.scheduler import Scheduler, at, cron, every
from anarchon.testing import Fleet
from tests.engine.bodies import Bodies, slot, slots


async def test_a_job_declared_while_running_fires_from_then_on(bodies: Bodies) -> None:
    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("first", "1h", bodies.taking(clock))

    async with Fleet(1, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(15))
        fleet[0].scheduler.every("second", "10s", bodies.taking(fleet[0].clock), jitter=0)
        await fleet.clock.advance_to(slot(45))

    assert bodies.slots() == slots(20, 40, 10)


async def test_a_job_declared_while_the_scheduler_starts_fires_too(bodies: Bodies) -> None:
    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("first", "10s", bodies.taking(clock), jitter=0)

    fleet = Fleet(1, declare, clock=bodies.clock)
    scheduler = fleet[0].scheduler
    fleet[0].faults.silent = True
    starting = asyncio.create_task(scheduler.start())
    await fleet.clock.advance(1)
    scheduler.every("second", "10s", bodies.taking(fleet[0].clock), jitter=0)
    fleet[0].faults.silent = False
    await fleet.clock.advance_until(starting.done)
    await fleet.clock.advance_to(slot(55))
    await fleet.stop(fleet[0])

    assert bodies.slots("second") == bodies.slots("first") != []


async def test_a_job_declared_during_the_first_call_of_a_start_fires_too(bodies: Bodies) -> None:
    """The list of jobs was taken already."""
    declared: list[Scheduler] = []

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("first", "10s", bodies.taking(clock), jitter=0)
        declared.append(scheduler)

    fleet = Fleet(1, declare, clock=bodies.clock)
    pass_on = fleet[0].faults.pass_on

    async def meanwhile(verb: str, call: Any) -> Any:
        if verb == "active" and len(declared[0].jobs) == 1:
            declared[0].every("second", "10s", bodies.taking(fleet[0].clock), jitter=0)
            await fleet[0].clock.sleep(0.01)
        return await pass_on(verb, call)

    fleet[0].faults.pass_on = meanwhile  # type: ignore[method-assign]
    async with fleet:
        await fleet.clock.advance_to(slot(35))

    assert bodies.slots("second") == bodies.slots("first") == slots(10, 30, 10)


async def test_a_job_declared_while_the_store_is_away_fires_when_it_is_back(
    bodies: Bodies,
) -> None:
    async with Fleet(1, lambda s, c: None, clock=bodies.clock) as fleet:
        fleet[0].faults.away = True
        fleet[0].scheduler.every("late", "10s", bodies.taking(fleet[0].clock), jitter=0)
        await fleet.clock.advance_to(slot(15))
        fleet[0].faults.away = False
        await fleet.clock.advance_to(slot(45))

    assert bodies.slots()[-2:] == slots(30, 40, 10)


async def test_a_job_s_name_is_its_own(bodies: Bodies) -> None:
    async with Fleet(1, lambda s, c: None, clock=bodies.clock) as fleet:
        scheduler = fleet[0].scheduler
        scheduler.every("sync", "10s", bodies.taking(fleet[0].clock))

        with pytest.raises(DuplicateJob) as caught:
            scheduler.cron("sync", "* * * * *", bodies.taking(fleet[0].clock))

    assert caught.value.job == "sync"


async def test_a_job_that_only_the_new_edition_knows_runs_while_one_of_them_lives(
    bodies: Bodies,
) -> None:
    numbers = iter(range(3))

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("old", "10s", bodies.taking(clock))
        if next(numbers) == 2:
            scheduler.every("new", "10s", bodies.taking(clock))

    async with Fleet(3, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(35))
        fleet[0].kill()
        await fleet.clock.advance_to(slot(65))

    assert bodies.slots("new") == slots(10, 60, 10)
    assert bodies.slots("old") == slots(10, 60, 10)


async def test_a_run_of_a_job_unknown_here_is_not_taken_over_here(bodies: Bodies) -> None:
    numbers = iter(range(2))

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("both", "10s", bodies.taking(clock))
        if next(numbers) == 0:
            scheduler.every("mine", "1m", bodies.taking(clock, 60))

    async with Fleet(2, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(61))
        fleet[0].kill()
        await fleet.clock.advance_to(slot(300))

    assert bodies.slots("mine") == [slot(60)]


async def test_two_editions_of_a_schedule_are_told_once_with_both_names(
    bodies: Bodies, caplog: pytest.LogCaptureFixture
) -> None:
    """G11."""
    caplog.set_level(logging.WARNING, "anarchon.scheduler")
    intervals = iter(["10s", "15s"])

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("sync", next(intervals), bodies.taking(clock), jitter=0)

    async with Fleet(2, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(3 * 3600))

        marks = {m.scheduler.jobs[0].fingerprint(slot(0)) for m in fleet.members}
    lines = [r.getMessage() for r in caplog.records if "two editions" in r.getMessage()]
    assert all(all(mark in line for mark in marks) for line in lines)
    assert 1 <= len(lines) <= 2  # each instance at most once
    # while two editions are in use, both fire, each slot once
    assert set(slots(10, 60, 10)) | set(slots(15, 60, 15)) <= set(bodies.slots())
    assert len(bodies.slots()) == len(set(bodies.slots()))


async def test_an_edited_schedule_does_not_make_up_for_the_past_of_its_new_text(
    bodies: Bodies,
) -> None:
    """F12: the slots of the new schedule before the edit were nobody's."""
    crons = iter(["0 12 * * *", "59 11 * * *"])

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.cron("report", next(crons), bodies.taking(clock), catch_up="1h")

    async with Fleet(1, declare, clock=bodies.clock) as fleet:
        noon = 12 * 3600
        await fleet.clock.advance_to(slot(noon + 30))
        await fleet.stop(fleet[0])
        await fleet.add()
        await fleet.clock.advance(3600)

    assert bodies.slots() == [slot(noon)]


async def test_declarations_on_a_class_are_registered_with_its_objects(bodies: Bodies) -> None:
    class Reports:
        def __init__(self, name: str) -> None:
            self.name = name
            self.seen: list[str] = []

        @every("often", "10s", jitter=0)
        @cron("daily", "0 0 * * *")
        async def write(self, ctx: RunContext) -> None:
            self.seen.append(ctx.job)

        @at("once", slot(15), jitter=0)
        async def migrate(self, ctx: RunContext) -> None:
            self.seen.append(f"{self.name} {ctx.job}")

    reports = Reports("mine")
    async with Fleet(1, lambda s, c: s.register(reports), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(25))

    assert reports.seen == ["often", "mine once", "often"]


def test_an_unknown_event_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigurationError) as caught:
        Fleet(1, lambda s, c: s.on("finished", print))

    assert caught.value.fix is not None
    assert EventKind.SUCCESS in caught.value.fix


async def test_next_slots_count_from_the_store_s_now(bodies: Bodies) -> None:
    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("sync", "10s", bodies.taking(clock))
        scheduler.at("once", slot(25), bodies.taking(clock))

    off = timedelta(hours=1)
    async with Fleet(2, declare, clock=bodies.clock, wall_is_off_by=off) as fleet:
        await fleet.clock.advance_to(slot(21))

        assert fleet[1].scheduler.next_slots("sync", 3) == slots(30, 50, 10)
        assert fleet[1].scheduler.next_slots("once", 3) == [slot(25)]
        with pytest.raises(ConfigurationError):
            fleet[1].scheduler.next_slots("nope")
