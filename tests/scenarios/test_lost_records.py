"""What the store kept is deleted under our feet: by hand, by an eviction, by a flush."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from redis import Redis

from anarchon import RunContext, Scheduler
from anarchon.backends.redis.keys import Keys
from anarchon.clock import MILLISECOND, SystemClock, from_millis, to_millis
from anarchon.events import EventKind
from anarchon.run import RunState
from anarchon.testing import Fleet
from tests.engine.bodies import Bodies, slot, slots
from tests.scenarios.fleets import job
from tests.servers import Server, ServersForTests

SERVER = "redis-8.0"


async def test_a_runner_whose_record_is_gone_is_told_and_nobody_runs_its_slot_again(
    bodies: Bodies,
) -> None:
    """G4: its renewal is refused; the slots to come run."""
    declare = job(bodies, "2m", 40, lease="15s", jitter=0)
    async with Fleet(3, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(122))
        space = fleet.backend._namespaces["default"]
        space.records.clear()
        space.ended.clear()
        await fleet.clock.advance_to(slot(122 + 5))
        assert bodies.all[0].ctx.signal.reason == "lease_lost"
        await fleet.clock.advance_to(slot(500))

        assert bodies.slots() == slots(120, 480, 120)
        [refused] = fleet.told(EventKind.LEASE_LOST)
    assert refused.instance == bodies.all[0].ctx.instance


@pytest.mark.parametrize("at", [29, 31, 36, 45, 61])
async def test_deleting_the_runs_of_a_job_at_any_moment_stops_none_of_its_next_slots(
    bodies: Bodies, at: float
) -> None:
    """G10: no slot hangs on what became of the one before it."""
    async with Fleet(2, job(bodies, "10s", 15, jitter=0), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(at))
        space = fleet.backend._namespaces["default"]
        space.ended.clear()
        space.records["sync"] = replace(space.records["sync"], runs={})
        await fleet.clock.advance_to(slot(209))

        ran = bodies.slots()
        states = {a.slot: a.state for a in await fleet.history("sync")}
    # a run that was under way is claimed anew by whoever had seen it; no other slot runs twice
    assert max(Counter(ran).values()) <= 2
    assert len(ran) - len(set(ran)) <= 1
    assert all(ran.count(moment) == 1 for moment in ran if moment > slot(at))
    # every second slot finds the job busy, as before
    assert len([moment for moment in ran if moment > slot(at + 20)]) >= (189 - at) // 20
    assert states[ran[-2]] is RunState.SUCCESS


@pytest.fixture
def server(servers: ServersForTests) -> Iterator[Server]:
    server = servers.start(SERVER)
    yield server
    server.stop()


@pytest.mark.xdist_group(SERVER)
@pytest.mark.parametrize("lost", ["everything", "the leases", "the runs"])
async def test_a_redis_that_loses_keys_during_a_run_has_it_run_by_two_at_most(
    server: Server, lost: str
) -> None:
    """G4: whoever holds a lease that is gone is told within a heartbeat or two."""
    clock = SystemClock()
    attempts: list[int] = []
    reasons: list[str | None] = []
    later: list[str] = []

    async def work(ctx: RunContext) -> None:
        attempts.append(ctx.attempt)
        async with clock.timeout(20):
            await ctx.signal.wait()
        reasons.append(ctx.signal.reason)
        ctx.signal.raise_if_set()

    async def next_job(ctx: RunContext) -> None:
        later.append(ctx.job)

    moment = from_millis(to_millis(clock.wall() + timedelta(seconds=1)))
    schedulers = [Scheduler(server.url(), namespace="lost") for _ in range(2)]
    for scheduler in schedulers:
        scheduler.at("sync", moment, work, lease="1s", jitter=0, max_late="3s")
        scheduler.at("next", moment + 4000 * MILLISECOND, next_job, jitter=0)
    async with schedulers[0], schedulers[1]:
        await _until(clock, lambda: attempts)
        with Redis(port=server.port) as admin:
            record, runs, leases, order = Keys("lost").of_job("sync")
            if lost == "everything":
                admin.flushall()
            else:
                admin.delete(*([leases] if lost == "the leases" else [record, runs, leases, order]))
        await _until(clock, lambda: reasons)
        await _until(clock, lambda: later)

    assert reasons[0] == "lease_lost"
    assert len(attempts) <= 2
    assert later == ["next"]


async def _until(clock: SystemClock, condition: object) -> None:
    assert callable(condition)
    async with clock.timeout(20):
        while not condition():
            await clock.sleep(0.01)
