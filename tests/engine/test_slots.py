"""Each slot runs once, whatever the instances do and however many there are."""

import asyncio
import random
from datetime import timedelta

import pytest

from anarchon.clock import Clock
from anarchon.events import EventKind
from anarchon.run import RunState
from anarchon.scheduler import Scheduler
from anarchon.testing import Fleet
from tests.engine.bodies import Bodies, slot, slots


@pytest.mark.parametrize("jitter", [0, "500ms"])
@pytest.mark.parametrize("takes", [0, 3])
async def test_three_instances_run_each_slot_once(
    bodies: Bodies, jitter: float | str, takes: float
) -> None:
    """G1, G2."""

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("sync", "10s", bodies.taking(clock, takes), jitter=jitter)

    async with Fleet(3, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance(605)

        history = await fleet.history("sync")
    assert bodies.slots() == slots(10, 600, 10)
    assert [(a.slot, a.state) for a in history] == [
        (moment, RunState.SUCCESS) for moment in slots(10, 600, 10)
    ]


async def test_the_work_is_shared(bodies: Bodies) -> None:
    random.seed(7)

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("sync", "10s", bodies.taking(clock))

    async with Fleet(3, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance(1005)

    runs = [body.ctx.instance for body in bodies.all]
    assert {runs.count(instance) > 10 for instance in set(runs)} == {True}
    assert len(set(runs)) == 3


async def test_a_slot_without_jitter_starts_at_its_moment(bodies: Bodies) -> None:
    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("sync", "10s", bodies.taking(clock), jitter=0)

    async with Fleet(2, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance(105)

    late = [body.began - (body.slot - slot(0)).total_seconds() for body in bodies.all]
    assert max(late) <= 0.002
    assert fleet[0].faults.calls["claim"] == 10


async def test_a_claim_waits_no_longer_than_its_jitter(bodies: Bodies) -> None:
    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("sync", "10s", bodies.taking(clock), jitter="500ms")
        scheduler.every("fast", "1s", bodies.taking(clock), jitter="500ms")

    async with Fleet(1, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance(305)

    late: dict[str, list[float]] = {"sync": [], "fast": []}
    for body in bodies.all:
        late[body.ctx.job].append(body.began - (body.slot - slot(0)).total_seconds())
    assert 0.25 < max(late["sync"]) <= 0.53
    # never past a tenth of the interval, and the 20 ms in which claims gather
    assert 0.05 < max(late["fast"]) <= 0.13


async def test_an_instance_that_is_late_by_most_of_the_interval_finds_the_slot_done(
    bodies: Bodies,
) -> None:
    """The body took no time, and its lease is long gone when the laggard asks. G2."""

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("sync", "10s", bodies.taking(clock), jitter=0)

    async with Fleet(2, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance(5)
        fleet[1].clock.freeze()
        await fleet.clock.advance(14)
        fleet[1].thaw()
        await fleet.clock.advance(20)

    assert bodies.slots() == slots(10, 30, 10)


async def test_ten_restarts_within_the_second_of_a_slot_run_it_once(bodies: Bodies) -> None:
    """G2."""

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("sync", "1m", bodies.taking(clock), jitter=0)

    async with Fleet(2, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(59.5))
        for _ in range(10):
            for member in fleet.members:
                await fleet.stop(member)
            for member in fleet.members:
                starting = asyncio.create_task(member.scheduler.start())
                await fleet.clock.advance_until(starting.done, step=0.01)
        assert slot(60) < fleet.clock.wall() < slot(65)
        await fleet.clock.advance(30)

    assert bodies.slots() == [slot(60)]


async def test_restarting_more_often_than_the_interval_loses_no_slot(bodies: Bodies) -> None:
    """Slots lie on a grid, not after a start."""

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("sync", "1m", bodies.taking(clock))

    async with Fleet(1, declare, clock=bodies.clock) as fleet:
        for _ in range(20):
            await fleet.clock.advance(25)
            await fleet.stop(fleet[0])
            await fleet._start(fleet[0])
        end = fleet.clock.monotonic()

    assert bodies.slots() == slots(60, end // 60 * 60, 60)


async def test_instances_of_the_same_name_are_still_different(bodies: Bodies) -> None:
    """Containers have one hostname and one pid."""

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler._name = "web"
        scheduler.every("sync", "10s", bodies.taking(clock, 3))

    async with Fleet(4, declare, clock=bodies.clock) as fleet:
        assert len({m.scheduler.instance for m in fleet.members}) == 4
        await fleet.clock.advance(105)

    assert bodies.slots() == slots(10, 100, 10)


async def test_a_job_that_runs_once_runs_once(bodies: Bodies) -> None:
    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.at("migrate", slot(30), bodies.taking(clock, 20))

    async with Fleet(3, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance(300)

    assert bodies.slots() == [slot(30)]


async def test_two_namespaces_on_one_store_never_meet(bodies: Bodies) -> None:
    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler._namespace = scheduler._name
        scheduler.every("sync", "10s", bodies.taking(clock))

    async with Fleet(2, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance(25)

    assert bodies.slots() == [slot(10), slot(10), slot(20), slot(20)]
    assert len({body.ctx.idempotency_key for body in bodies.all}) == 4


async def test_a_slot_is_skipped_as_taken_once_by_each_of_the_others(bodies: Bodies) -> None:
    """However often they look at the run while it is under way."""

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("sync", "1h", bodies.taking(clock, 600))

    async with Fleet(3, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance(3600 + 700)

        skips = fleet.told(EventKind.SKIP)
    assert [(e.slot, e.reason) for e in skips] == [(slot(3600), "taken")] * 2


async def test_a_backup_does_not_ask_more_than_once_a_heartbeat(bodies: Bodies) -> None:
    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("sync", "1h", bodies.taking(clock, 600), jitter=0, lease="15s")

    async with Fleet(2, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance(3601)
        for member in fleet.members:
            member.faults.calls.clear()
        await fleet.clock.advance(595)

        looks = sum(member.faults.calls["claim"] for member in fleet.members)
        renewals = sum(member.faults.calls["renew"] for member in fleet.members)
    assert 595 / 10 - 1 <= looks <= 595 / 5
    assert renewals == 595 // 5


async def test_the_fence_grows_from_run_to_run_and_from_attempt_to_attempt(
    bodies: Bodies,
) -> None:
    """G5."""

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("sync", "1m", bodies.taking(clock, 30), lease="6s", jitter=0)

    async with Fleet(4, declare, clock=bodies.clock) as fleet:
        for minute in range(1, 4):
            await fleet.clock.advance_to(slot(60 * minute + 5))
            held = bodies.all[-1].ctx.instance
            next(m for m in fleet.members if m.scheduler.instance == held).kill()
        await fleet.clock.advance(60)

    assert bodies.attempts() == [1, 2, 1, 2, 1, 2, 1][: len(bodies.all)]
    fences = [body.ctx.fence for body in bodies.all]
    assert fences == sorted(set(fences))
    assert len(fences) >= 6


async def test_slots_that_nobody_could_start_in_time_are_not_made_up(bodies: Bodies) -> None:
    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("sync", "10m", bodies.taking(clock), max_late="30s", catch_up="30s")

    async with Fleet(1, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(595))
        fleet[0].freeze()
        await fleet.clock.advance(40)
        fleet[0].thaw()
        await fleet.clock.advance_to(slot(1250))

        skips = [(e.slot, e.reason) for e in fleet.told(EventKind.SKIP)]
    assert bodies.slots() == [slot(1200)]
    assert skips == [(slot(600), "late")]


async def test_the_idempotency_key_is_the_same_for_every_attempt_and_for_no_other_slot(
    bodies: Bodies,
) -> None:
    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("sync", "1m", bodies.taking(clock, 30), lease="6s", jitter=0)

    async with Fleet(2, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(65))
        held = bodies.all[-1].ctx.instance
        next(m for m in fleet.members if m.scheduler.instance == held).kill()
        await fleet.clock.advance(timedelta(minutes=1))

    keys = [body.ctx.idempotency_key for body in bodies.all]
    assert keys == ["default:sync:1767225660000"] * 2 + ["default:sync:1767225720000"]
