"""One broken job, callback or schedule, or one slow call, delays nobody else for long."""

import asyncio
import logging
from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest

from anarchon.clock import Clock
from anarchon.errors import StoreError
from anarchon.events import Event, EventKind
from anarchon.scheduler import Scheduler
from anarchon.schedules import Every
from anarchon.store import Claim, ClaimAnswer, Reply
from anarchon.testing import ClaimFleet, Fleet
from tests.engine.bodies import Bodies, leases_of, runner, slot, slots


class Broken:
    """A schedule that fails from some moment on, as one of somebody else's may."""

    def __init__(self, fails: set[str]) -> None:
        self.fails = fails
        self._grid = Every("10s")

    def next_after(self, moment: datetime, /) -> datetime | None:
        return self._ask("next_after", moment)

    def latest_at(self, moment: datetime, /) -> datetime | None:
        return self._ask("latest_at", moment)

    def _ask(self, question: str, moment: datetime) -> datetime | None:
        if question in self.fails:
            raise ArithmeticError("no such moment")
        answer: datetime | None = getattr(self._grid, question)(moment)
        return answer

    def canonical(self) -> str:
        return "broken"

    def fingerprint(self, now: datetime, /) -> str:
        if "fingerprint" in self.fails:
            raise ArithmeticError("no such zone")
        return "broken"


@pytest.mark.parametrize("question", ["next_after", "latest_at", "fingerprint"])
@pytest.mark.parametrize("kind", [Fleet, ClaimFleet])
async def test_a_schedule_that_fails_at_start_stops_only_its_own_job(
    bodies: Bodies, question: str, kind: type[Fleet] | type[ClaimFleet]
) -> None:
    """G10."""

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.add("bad", Broken({question}), bodies.taking(clock))
        scheduler.every("good", "10s", bodies.taking(clock))

    async with kind(1, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(35))

        # nothing was missed, so nobody asks for the newest slot
        if kind is Fleet and question != "latest_at":
            assert fleet.told(EventKind.ERROR, "bad") != []
        assert fleet.told(EventKind.ERROR, "good") == []
    assert bodies.slots("good") == slots(10, 30, 10)


async def test_a_run_is_taken_over_though_its_schedule_fails_by_then(bodies: Bodies) -> None:
    """G6."""
    schedule = Broken(set())

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.add("bad", schedule, bodies.taking(clock, 60))

    async with Fleet(2, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(12))
        schedule.fails.update({"next_after", "latest_at"})
        runner(fleet, bodies.all[0]).kill()
        await fleet.clock.advance_to(slot(60))

    assert [body.ctx.attempt for body in bodies.all] == [1, 2]


@pytest.mark.parametrize("question", ["next_after", "latest_at", "fingerprint"])
async def test_a_schedule_that_fails_later_stops_only_its_own_job(
    bodies: Bodies, question: str
) -> None:
    """G10: also when the clock is set back, and when everything is looked at after a gap."""
    schedule = Broken(set())

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.add("bad", schedule, bodies.taking(clock))
        for number in range(8):
            scheduler.every(f"good {number}", "10s", bodies.taking(clock))

    async with Fleet(1, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(25))
        schedule.fails.add(question)
        fleet.store_is_off_by = timedelta(seconds=-7)
        await fleet.clock.advance_to(slot(57))
        fleet[0].freeze()
        await fleet.clock.advance(60)
        fleet[0].thaw()
        await fleet.clock.advance_to(slot(207))

        assert {e.job for e in fleet.told(EventKind.ERROR)} <= {"bad"}
    for number in range(8):
        assert bodies.slots(f"good {number}")[-5:] == slots(150, 190, 10)


async def test_a_job_that_always_raises_disturbs_no_other(bodies: Bodies) -> None:
    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("bad", "10s", bodies.taking(clock, then=SystemExit("bye")))
        scheduler.every("good", "10s", bodies.taking(clock))

    async with Fleet(2, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(105))

    assert bodies.slots("good") == bodies.slots("bad") == slots(10, 100, 10)


async def test_a_claim_the_store_chokes_on_stops_only_its_own_job(bodies: Bodies) -> None:
    def declare(scheduler: Scheduler, clock: Clock) -> None:
        for number in range(20):
            scheduler.every(f"job {number}", "10s", bodies.taking(clock), jitter=0)

    async with Fleet(1, declare, clock=bodies.clock) as fleet:
        gatherer = leases_of(fleet[0])._asking._claims
        send = gatherer._send

        async def choking(claims: Sequence[Claim]) -> Reply[ClaimAnswer]:
            if any(claim.job == "job 7" for claim in claims):
                raise StoreError("memory://", "cannot read the record")
            return await send(claims)

        gatherer._send = choking
        await fleet.clock.advance_to(slot(35))

        assert {e.job for e in fleet.told(EventKind.ERROR)} == {"job 7"}
    assert len(bodies.slots()) == 19 * 3


async def test_a_call_that_hangs_delays_the_others_by_its_deadline_only(bodies: Bodies) -> None:
    """G10."""

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("sync", "10s", bodies.taking(clock), jitter=0)

    async with Fleet(1, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(9))
        hanging = asyncio.create_task(fleet[0].scheduler.history())
        fleet[0].faults.silent = True
        await fleet.clock.advance(0)
        fleet[0].faults.silent = False
        await fleet.clock.advance_to(slot(9 + 10.1))

        assert bodies.slots() == [slot(10)]
        with pytest.raises(StoreError):
            await hanging


@pytest.mark.parametrize("kind", ["start", "success", "skip"])
async def test_a_callback_that_raises_hurts_no_run(
    bodies: Bodies, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    def declare(scheduler: Scheduler, clock: Clock) -> None:
        def refuse(event: Event) -> None:
            raise ValueError("no")

        async def refuse_later(event: Event) -> None:
            raise ValueError("no, later")

        scheduler.on(kind, refuse)
        scheduler.on(kind, refuse_later)
        scheduler.every("sync", "10s", bodies.taking(clock))

    async with Fleet(2, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(35))

        assert len(fleet.told(EventKind.SUCCESS)) == 3
    assert bodies.slots() == slots(10, 30, 10)
    failures = [r for r in caplog.records if r.getMessage().startswith("callback failed")]
    assert len(failures) == 6
    assert {r.levelno for r in failures} == {logging.ERROR}


async def test_an_async_callback_is_awaited_beside_the_run(bodies: Bodies) -> None:
    told: list[tuple[float, Event]] = []

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        async def slow(event: Event) -> None:
            await clock.sleep(3)
            told.append((bodies.clock.monotonic(), event))

        scheduler.on("start", slow)
        scheduler.every("sync", "1h", bodies.taking(clock, 1), jitter=0)

    async with Fleet(1, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(3610))

    assert bodies.all[0].ended == pytest.approx(3601, abs=0.01)
    assert [at for at, _ in told] == [pytest.approx(3603, abs=0.01)]


async def test_an_internal_error_while_firing_does_not_end_the_timers(bodies: Bodies) -> None:
    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("sync", "10s", bodies.taking(clock))

    async with Fleet(1, declare, clock=bodies.clock) as fleet:
        life = fleet[0].scheduler._life
        assert life is not None
        wakes_at = life._timers.wakes_at
        fails = iter([True])

        def failing() -> datetime | None:
            if next(fails, False):
                raise RuntimeError("a mistake of ours")
            return wakes_at()

        life._timers.wakes_at = failing  # type: ignore[method-assign]
        await fleet.clock.advance_to(slot(65))

    assert bodies.slots() == slots(10, 60, 10)
