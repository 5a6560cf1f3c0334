"""A job longer than its interval skips slots; it neither piles up nor stands still."""

import itertools

import pytest

from anarchon.clock import Clock
from anarchon.events import EventKind
from anarchon.run import RunState
from anarchon.scheduler import Scheduler
from anarchon.testing import Fleet
from tests.engine.bodies import Bodies, runner, slot, slots


@pytest.mark.parametrize("size", [1, 3])
async def test_a_job_longer_than_its_interval_skips_slots(bodies: Bodies, size: int) -> None:
    """G3, G9."""

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("sync", "10s", bodies.taking(clock, 25), jitter=0)

    async with Fleet(size, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(189))

        assert bodies.most_at_once() == 1
        assert bodies.slots() == slots(10, 160, 30)
        states = {a.slot: a.state for a in await fleet.history("sync")}
    assert states[slot(20)] is states[slot(30)] is RunState.SKIPPED
    assert states[slot(40)] is RunState.SUCCESS


async def test_a_skipped_slot_is_told_once_by_each_instance(bodies: Bodies) -> None:
    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("sync", "10s", bodies.taking(clock, 15), jitter=0)

    async with Fleet(2, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(29))

        skips = [e.instance for e in fleet.told(EventKind.SKIP) if e.reason == "overlap"]
    assert sorted(skips) == sorted(set(skips))
    assert len(skips) == 2


async def test_a_slot_skipped_by_one_may_be_won_in_time_by_another(bodies: Bodies) -> None:
    """Its claim came after the run in the way had ended."""
    jitters = iter(["0s", "1s"])

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        takes = 10.02
        scheduler.every("sync", "10s", bodies.taking(clock, takes), jitter=next(jitters))

    async with Fleet(2, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(300))

        states = [a.state for a in await fleet.history("sync")]
    assert bodies.most_at_once() == 1
    # every second slot at the latest, and some right behind the run before
    gaps = [(b.slot - a.slot).total_seconds() for a, b in itertools.pairwise(bodies.all)]
    assert set(gaps) == {10, 20}
    assert RunState.SKIPPED in states


async def test_runs_that_may_overlap_do(bodies: Bodies) -> None:
    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("sync", "10s", bodies.taking(clock, 25), jitter=0, overlap="allow")

    async with Fleet(2, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(101))

        assert bodies.slots() == slots(10, 100, 10)
        assert bodies.most_at_once() == 3


async def test_no_overlap_holds_through_a_restart_of_everybody_else(bodies: Bodies) -> None:
    """G3: who is new sees the run that is under way."""

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("sync", "10s", bodies.taking(clock, 65), jitter=0)

    async with Fleet(3, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(11))
        first = runner(fleet, bodies.all[0])
        for member in fleet.members:
            if member is not first:
                await fleet.stop(member)
                await fleet._start(member)
        await fleet.clock.advance_to(slot(74))

    assert bodies.most_at_once() == 1
    assert bodies.slots() == [slot(10)]


async def test_no_overlap_holds_through_a_takeover(bodies: Bodies) -> None:
    """G3: slots that come due while attempt 2 runs are skipped too."""

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("sync", "30s", bodies.taking(clock, 65), lease="6s", jitter=0)

    async with Fleet(2, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(31))
        runner(fleet, bodies.all[0]).kill()
        await fleet.clock.advance_to(slot(100))

        states = {(a.slot, a.attempt): a.state for a in await fleet.history("sync")}
    assert bodies.slots() == [slot(30), slot(30)]
    assert states[slot(60), 0] is states[slot(90), 0] is RunState.SKIPPED


async def test_a_slot_that_was_in_somebodys_way_is_not_run_later(bodies: Bodies) -> None:
    """Its instance restarts within ``catch_up``: the slot was decided, not missed."""

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("sync", "1m", bodies.taking(clock, 70), jitter=0)

    async with Fleet(2, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(131))  # 60 s ended at 130, 120 s was in its way
        for member in fleet.members:
            await fleet.stop(member)
        for member in fleet.members:
            await fleet._start(member)
        await fleet.clock.advance_to(slot(179))

    assert bodies.slots() == [slot(60)]
