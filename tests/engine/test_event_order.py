"""What happened is told in the order in which it did, with everything needed to read it."""

import pytest

from anarchon.clock import Clock
from anarchon.events import Event, EventKind
from anarchon.scheduler import Scheduler
from anarchon.testing import Fleet
from tests.engine.bodies import Bodies, runner, slot


def kinds(events: list[Event], instance: str | None = None) -> list[str]:
    return [str(e.kind) for e in events if instance in (None, e.instance)]


async def test_a_success_is_told_after_its_start(bodies: Bodies) -> None:
    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("sync", "1m", bodies.taking(clock, 3, then={"rows": 3}), jitter=0)

    async with Fleet(2, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(70))

        winner = bodies.all[0].ctx.instance
        assert kinds(fleet.events, winner) == ["start", "success"]
        assert [(e.kind, e.reason) for e in fleet.events if e.instance != winner] == [
            (EventKind.SKIP, "taken")
        ]
        [success] = fleet.told(EventKind.SUCCESS)
        assert (success.job, success.slot, success.attempt) == ("sync", slot(60), 1)
        assert (success.detail, success.error) == ('{"rows": 3}', None)


async def test_a_failure_carries_its_error(bodies: Bodies) -> None:
    error = ValueError("no")

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("sync", "1m", bodies.taking(clock, 3, then=error), jitter=0)

    async with Fleet(1, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(70))

        assert kinds(fleet.events) == ["start", "failure"]
        assert fleet.events[-1].error is error


async def test_the_traceback_of_a_user_s_error_is_logged_once(
    bodies: Bodies, caplog: pytest.LogCaptureFixture
) -> None:
    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("sync", "1m", bodies.taking(clock, then=ValueError("no")), jitter=0)

    async with Fleet(2, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(70))

    assert [r.exc_info is not None for r in caplog.records if "failure" in r.getMessage()] == [True]


async def test_a_takeover_is_told_before_the_start_it_leads_to(bodies: Bodies) -> None:
    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("sync", "10m", bodies.taking(clock, 30), jitter=0)

    async with Fleet(2, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(601))
        runner(fleet, bodies.all[0]).kill()
        await fleet.clock.advance(60)

        assert kinds(fleet.events, bodies.all[1].ctx.instance) == [
            "skip",
            "takeover",
            "start",
            "success",
        ]
        assert [e.attempt for e in fleet.events][-3:] == [2, 2, 2]


async def test_a_hand_over_is_told_by_who_leaves(bodies: Bodies) -> None:
    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("sync", "10m", bodies.taking(clock, 60), jitter=0)

    async with Fleet(2, declare, clock=bodies.clock, grace=0) as fleet:
        await fleet.clock.advance_to(slot(601))
        await fleet.stop(runner(fleet, bodies.all[0]))

        assert kinds(fleet.events, bodies.all[0].ctx.instance) == [
            "start",
            "interrupted",
            "handover",
        ]


async def test_callbacks_hear_what_they_asked_for_and_nothing_else(bodies: Bodies) -> None:
    heard: list[EventKind] = []

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.on("success", lambda event: heard.append(event.kind))
        scheduler.on("success", lambda event: heard.append(event.kind))
        scheduler.every("sync", "1m", bodies.taking(clock), jitter=0)

    async with Fleet(1, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(70))

    assert heard == [EventKind.SUCCESS] * 2


async def test_what_a_scheduler_does_can_be_read_off_it(bodies: Bodies) -> None:
    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("sync", "1m", bodies.taking(clock, 30), jitter=0)

    fleet = Fleet(1, declare, clock=bodies.clock)
    assert repr(fleet[0].scheduler) == "<Scheduler member0: 1 job, not running>"
    async with fleet:
        await fleet.clock.advance_to(slot(61))
        name = fleet[0].scheduler.instance

        assert repr(fleet[0].scheduler) == (
            f"<Scheduler {name}: 1 job, holding sync@2026-01-01T00:01:00.000Z attempt 1>"
        )
        assert fleet[0].scheduler.seconds_since_woken() <= 60
