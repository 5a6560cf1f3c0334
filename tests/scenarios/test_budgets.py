"""What it costs the store that nothing happens, or that everything happens at once."""

from __future__ import annotations

from collections import Counter

from anarchon.clock import Clock
from anarchon.scheduler import Scheduler
from anarchon.testing import Fleet
from tests.engine.bodies import Bodies, slot
from tests.scenarios.fleets import job


async def test_an_idle_hour_costs_each_instance_a_dozen_calls_however_many_jobs_it_has(
    bodies: Bodies,
) -> None:
    """Nobody elects, polls or renews anything while nothing is due."""

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        work = bodies.taking(clock)
        for number in range(400):
            scheduler.every(f"job {number}", "365d", work)

    async with Fleet(4, declare, clock=bodies.clock) as fleet:
        for member in fleet.members:
            member.faults.calls.clear()
        await fleet.clock.advance(3600)

        for member in fleet.members:
            # upkeep, three times at most: who we are, and what may go
            assert set(member.faults.calls) <= {"active", "prune"}
            assert sum(member.faults.calls.values()) <= 12


async def test_of_32_instances_each_asks_a_few_times_for_all_slots_of_one_instant(
    bodies: Bodies,
) -> None:
    """Whoever loses 150 slots has lost them in one call; one look tells that they have ended."""

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        work = bodies.taking(clock)
        for number in range(150):
            scheduler.every(f"job {number}", "1h", work, jitter=0)

    async with Fleet(32, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(3599))
        for member in fleet.members:
            member.faults.calls.clear()
        await fleet.clock.advance_to(slot(3630))

        calls = [Counter(member.faults.calls) for member in fleet.members]
    assert Counter(bodies.slots()) == {slot(3600): 150}
    assert len({body.ctx.job for body in bodies.all}) == 150
    winners = {body.ctx.instance for body in bodies.all}
    losers = [c for c, m in zip(calls, fleet.members, strict=True) if not c["finish"]]
    assert len(losers) == 32 - len(winners)
    assert max(c["claim"] for c in losers) <= 2
    # upkeep may fall into this half minute
    assert max(sum(c.values()) for c in losers) <= 2 + 2


async def test_what_was_run_is_pruned_while_everybody_runs_on(bodies: Bodies) -> None:
    """Retention is on by default, and its work is done by whoever is up."""
    declare = job(bodies, "30s", history_limit=20, jitter=0, catch_up="1m")
    async with Fleet(2, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(3 * 3600))

        kept = len(await fleet.history("sync", limit=5000))
        space = fleet.backend._namespaces["default"]
        assert len(space.ended["sync"]) + len(space.records["sync"].runs) == kept
    # two instances look each hour at the latest
    assert len(bodies.all) == 360
    assert 20 <= kept <= 20 + 120
