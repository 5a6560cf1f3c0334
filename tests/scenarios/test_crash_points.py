"""A process dies right before or right after the store did what it asked, and is restarted at once.

Every call an instance makes is such a point: there is no step between two of them at which
a slot can get lost, stay locked, or be run by two.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import asynccontextmanager
from datetime import datetime

import pytest

from anarchon.run import RunState
from anarchon.testing import Fleet, Member
from tests.engine.bodies import Bodies, slot, slots
from tests.scenarios.fleets import Ask, Nth, for_ever, job, on_the_way, open_runs

INTERVAL, LEASE = 30, 6
#: Upkeep comes for the first time within ten minutes.
END = 685


def dies_at(member: Member, verb: str, number: int, after: bool) -> asyncio.Event:
    """Kill a member at a call of its own; the event tells that it is dead."""
    point, dead = Nth(verb, number), asyncio.Event()

    async def meddle(verb: str, ask: Ask) -> object:
        if not point.has_come(verb):
            return await ask()
        if after:
            await ask()
        member.kill()
        dead.set()
        await for_ever()
        return None

    on_the_way(member, meddle)
    return dead


@asynccontextmanager
async def doomed_fleet(bodies: Bodies, verb: str, number: int, after: bool):
    """Start two instances, of which the first dies; whoever starts it need not see it ready."""
    declare = job(bodies, f"{INTERVAL}s", 3, lease=LEASE, jitter=0)
    fleet = Fleet(2, declare, clock=bodies.clock)
    dead = dies_at(fleet[0], verb, number, after)
    starting = asyncio.create_task(fleet[0].scheduler.start(), name="anarchon-doomed")
    try:
        await fleet.clock.advance(0.1)
        await fleet._start(fleet[1])
        yield fleet, dead
    finally:
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        await fleet.__aexit__(None, None, None)


def attempts_by_slot(bodies: Bodies) -> dict[datetime, list[int]]:
    found: dict[datetime, list[int]] = defaultdict(list)
    for body in bodies.all:
        found[body.slot].append(body.attempt)
    return found


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    ("verb", "number"),
    [
        ("open", 1),
        ("open", 2),
        ("active", 1),
        ("active", 2),
        ("claim", 1),
        ("claim", 2),
        ("renew", 1),
        ("finish", 1),
        ("finish", 2),
        ("prune", 1),
    ],
)
async def test_a_death_at_any_call_and_a_restart_lose_double_and_lock_no_slot(
    bodies: Bodies, verb: str, number: int, after: bool
) -> None:
    """G1, G2, G4, G6."""
    async with doomed_fleet(bodies, verb, number, after) as (fleet, dead):
        await fleet.clock.advance_until(dead.is_set, within=END)
        await fleet.add()
        await fleet.clock.advance_to(slot(END))

        history = await fleet.history("sync")
        assert open_runs(fleet) == []
    expected = slots(INTERVAL, END // INTERVAL * INTERVAL, INTERVAL)
    assert [a.slot for a in history if a.state is RunState.SUCCESS] == expected
    assert {a.state for a in history} <= {RunState.SUCCESS, RunState.LOST}
    ran = attempts_by_slot(bodies)
    assert sorted(ran) == expected
    # started again only where the claim was granted; [2]: it died before its work began
    again = [attempts for attempts in ran.values() if attempts != [1]]
    assert again in ([], [[2]], [[1, 2]])
    if (verb, after) in {("claim", False), ("finish", True)}:
        assert again == []
    if (verb, after) == ("claim", True):
        assert again == [[2]]
    if (verb, after) == ("finish", False):
        assert again == [[1, 2]]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_death_at_the_hand_over_costs_at_most_the_wait_for_the_lease(
    bodies: Bodies, after: bool
) -> None:
    """G6, G7."""
    async with doomed_fleet(bodies, "release", 1, after) as (fleet, dead):
        await fleet.clock.advance_to(slot(INTERVAL + 1))
        leaving = asyncio.create_task(fleet[0].scheduler.stop(0), name="anarchon-doomed-stop")
        await fleet.clock.advance_until(dead.is_set, within=5)
        await fleet.clock.advance(2 * LEASE / 3 + 0.1)
        if after:
            assert bodies.attempts() == [1, 2]
        # and the time that its work takes
        await fleet.clock.advance(LEASE + 2)
        leaving.cancel()

        history = await fleet.history("sync")
        assert open_runs(fleet) == []
    assert bodies.attempts() == [1, 2]
    first = RunState.INTERRUPTED if after else RunState.LOST
    assert [a.state for a in history] == [first, RunState.SUCCESS]
