"""A store that answers slowly costs only those who cannot wait for it."""

from typing import Any

import pytest

from anarchon.clock import Clock
from anarchon.events import EventKind
from anarchon.run import RunState
from anarchon.scheduler import Scheduler
from anarchon.testing import Fleet, Member
from tests.engine.bodies import Bodies, slot, slots


def slow_down(member: Member, seconds: float) -> None:
    """Let every call of this member take so long."""
    pass_on = member.faults.pass_on

    async def late(verb: str, call: Any) -> Any:
        await member.clock.sleep(seconds)
        return await pass_on(verb, call)

    member.faults.pass_on = late  # type: ignore[method-assign]


async def test_a_job_with_a_short_lease_costs_the_others_none_of_their_slots(
    bodies: Bodies,
) -> None:
    """G10."""

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("urgent", "10s", bodies.taking(clock), lease="1s", jitter=0)
        for name in ("a", "b", "c"):
            scheduler.every(name, "10s", bodies.taking(clock), jitter=0)

    async with Fleet(1, declare, clock=bodies.clock) as fleet:
        slow_down(fleet[0], 0.4)
        await fleet.clock.advance_to(slot(65))

    for name in ("a", "b", "c"):
        assert bodies.slots(name) == slots(10, 60, 10)


async def test_a_lease_too_short_for_the_store_costs_no_other_lease(bodies: Bodies) -> None:
    """G10."""

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("urgent", "1h", bodies.taking(clock, 60), lease="1s", jitter=0)
        scheduler.every("patient", "1h", bodies.taking(clock, 60), jitter=0)

    async with Fleet(1, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(3601))
        slow_down(fleet[0], 0.4)
        await fleet.clock.advance(70)

        assert [event.job for event in fleet.told(EventKind.SUCCESS)] == ["patient"]
        [patient] = [body for body in bodies.all if body.ctx.job == "patient"]
        assert patient.ctx.signal.reason is None
        [attempt] = await fleet.history("patient")
    assert attempt.state is RunState.SUCCESS


@pytest.mark.parametrize("jitter", ["20m", 0])
async def test_a_catch_up_does_not_wait_until_it_is_too_late(
    bodies: Bodies, jitter: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G8: whatever jitter the slots of the job have."""
    monkeypatch.setattr("random.random", lambda: 0.99)

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("sync", "1d", bodies.taking(clock), jitter=jitter, max_late="1h")

    async with Fleet(1, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance(60)
        await fleet.stop(fleet[0])
        await fleet.clock.advance_to(slot(24 * 3600 + 30))
        await fleet._start(fleet[0])
        await fleet.clock.advance(300)

    assert bodies.slots() == [slot(24 * 3600)]
