"""A store that is away, silent, or loses its replies costs no slot inside the windows."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from anarchon.backends.memory import Saved
from anarchon.clock import Clock
from anarchon.errors import SchemaMismatch
from anarchon.events import EventKind
from anarchon.run import RunState
from anarchon.scheduler import Scheduler
from anarchon.testing import Fleet
from tests.engine.bodies import Bodies, leases_of, runner, slot, slots

#: The longest pause between two tries of one kind.
PAUSE = 5.0


def job(
    bodies: Bodies, interval: str = "1m", takes: float = 0, **options: Any
) -> Callable[[Scheduler, Clock], object]:
    def declare(scheduler: Scheduler, clock: Clock) -> object:
        return scheduler.every("sync", interval, bodies.taking(clock, takes), **options)

    return declare


def set_fault(fleet: Fleet, fault: str, value: bool) -> None:
    for member in fleet.members:
        setattr(member.faults, fault, value)


@pytest.mark.parametrize("fault", ["away", "silent"])
async def test_a_store_away_at_start_is_waited_for(bodies: Bodies, fault: str) -> None:
    fleet = Fleet(2, job(bodies), clock=bodies.clock)
    set_fault(fleet, fault, True)
    async with fleet:
        ready = [fleet[0].scheduler.is_ready]
        await fleet.clock.advance_to(slot(150))
        set_fault(fleet, fault, False)
        await fleet.clock.advance_to(slot(250))

        ready.append(fleet[0].scheduler.is_ready)
    assert ready == [False, True]
    assert bodies.slots() == [slot(180), slot(240)]


async def test_a_store_away_at_start_is_recovered_from_when_it_answers(bodies: Bodies) -> None:
    """What was missed until then is caught up, what was unfinished is taken over."""
    async with Fleet(1, job(bodies, "10m", 30), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(601))
        fleet[0].kill()
        second = fleet._member(1, type(fleet.store_is_off_by)(0))
        second.faults.away = True
        fleet.members.append(second)
        await fleet._start(second)
        await fleet.clock.advance_to(slot(700))
        second.faults.away = False
        await fleet.clock.advance(PAUSE + 31)

    assert [(b.slot, b.attempt) for b in bodies.all] == [(slot(600), 1), (slot(600), 2)]


async def test_a_store_that_will_never_do_is_an_error_of_start(bodies: Bodies) -> None:
    fleet = Fleet(1, job(bodies), clock=bodies.clock)
    scheduler, faults = fleet[0].scheduler, fleet[0].faults
    fail = SchemaMismatch("memory://", "version 9")

    async def refuse(verb: str, call: object) -> Any:
        raise fail

    faults.pass_on = refuse  # type: ignore[method-assign]
    starting = asyncio.create_task(scheduler.start())
    await fleet.clock.advance_until(starting.done)

    with pytest.raises(SchemaMismatch):
        await starting
    assert "not running" in repr(scheduler)
    assert [t for t in asyncio.all_tasks() if t.get_name().startswith("anarchon")] == []


@pytest.mark.parametrize("fault", ["away", "silent"])
@pytest.mark.parametrize("seconds", [10, 60, 600])
async def test_after_an_outage_every_job_goes_on(
    bodies: Bodies, fault: str, seconds: float
) -> None:
    async with Fleet(3, job(bodies), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(70))
        set_fault(fleet, fault, True)
        await fleet.clock.advance(seconds)
        set_fault(fleet, fault, False)
        await fleet.clock.advance_to(slot(1205))

    during = [moment for moment in slots(120, 1200, 60) if moment < slot(70 + seconds)]
    after = [moment for moment in slots(120, 1200, 60) if moment >= slot(70 + seconds)]
    assert bodies.slots() == sorted(set(bodies.slots()))
    # of what came due in the outage only the newest may still start
    assert bodies.slots() == [slot(60), *during[-1:], *after]


@pytest.mark.parametrize("fault", ["away", "silent"])
async def test_a_slot_due_in_an_outage_runs_while_it_is_in_time(bodies: Bodies, fault: str) -> None:
    async with Fleet(2, job(bodies, "10m"), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(590))
        set_fault(fleet, fault, True)
        await fleet.clock.advance_to(slot(800))
        set_fault(fleet, fault, False)
        await fleet.clock.advance(PAUSE + 5 + 1)

        assert bodies.slots() == [slot(600)]


async def test_a_claim_given_up_is_told_and_its_slot_watched(bodies: Bodies) -> None:
    async with Fleet(1, job(bodies, "1m", max_late="20s"), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(59))
        fleet[0].faults.away = True
        await fleet.clock.advance_to(slot(100))

        [skip] = fleet.told(EventKind.SKIP)
        assert (skip.slot, skip.job, skip.reason) == (slot(60), "sync", "late")
        assert skip.detail == "the store gave no answer in time"


@pytest.mark.parametrize("fault", ["away", "silent"])
async def test_a_result_waits_for_the_store_however_long_it_is_away(
    bodies: Bodies, fault: str
) -> None:
    """Nobody else could have taken the run."""
    async with Fleet(2, job(bodies, "1h", 10), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(3605))
        set_fault(fleet, fault, True)
        await fleet.clock.advance(600)
        set_fault(fleet, fault, False)
        await fleet.clock.advance(3 * PAUSE)

        history = await fleet.history("sync")
    # nobody is told of a lost lease after the end
    assert not bodies.all[0].ctx.signal.is_set()
    # at whichever moment the store hears of it first: the end, or a look of the backup
    assert [a.state for a in history] in (
        [RunState.SUCCESS],
        [RunState.LOST, RunState.SUCCESS],
        [RunState.LOST, RunState.RUNNING],
    )
    assert len(bodies.all) == len(history)


async def test_a_slot_missed_in_an_outage_is_caught_up_as_at_a_start(bodies: Bodies) -> None:
    declare = job(bodies, "10m", max_late="30s", catch_up="5m")
    async with Fleet(2, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(590))
        set_fault(fleet, "away", True)
        await fleet.clock.advance_to(slot(700))
        set_fault(fleet, "away", False)
        await fleet.clock.advance(20)

    assert bodies.slots() == [slot(600)]


async def test_a_claim_given_up_that_was_stored_after_all_is_taken_over(bodies: Bodies) -> None:
    """Neither the answer to the claim came, nor that to its release."""
    declare = job(bodies, "10m", max_late="5s", jitter=0)
    async with Fleet(1, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(599))
        fleet[0].faults.loses.update(claim=50, release=50)
        await fleet.clock.advance_until(lambda: fleet.told(EventKind.SKIP))
        fleet[0].faults.loses.clear()
        assert fleet.clock.monotonic() < 600 + 15
        await fleet.clock.advance(15 + 2 * 5 + 1)

    assert [(b.slot, b.attempt) for b in bodies.all] == [(slot(600), 2)]


async def test_a_result_is_stored_when_only_the_runner_was_cut_off_for_less_than_its_lease(
    bodies: Bodies,
) -> None:
    async with Fleet(2, job(bodies, "1h", 10), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(3605.1))
        cut_off = runner(fleet, bodies.all[0])
        cut_off.faults.away = True
        await fleet.clock.advance(8)
        cut_off.faults.away = False
        await fleet.clock.advance(30)

        [attempt] = await fleet.history("sync")
    assert attempt.state is RunState.SUCCESS


@pytest.mark.parametrize("fault", ["away", "silent"])
async def test_a_runner_cut_off_stops_trusting_before_anybody_can_take_over(
    bodies: Bodies, fault: str
) -> None:
    """The signal comes a margin before the lease lapses at the store."""
    told: list[float] = []

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        work = bodies.taking(clock, 60)

        async def listening(ctx: Any) -> None:
            body = asyncio.ensure_future(work(ctx))
            await ctx.signal.wait()
            told.append(bodies.clock.monotonic())
            await body

        scheduler.every("sync", "1h", listening, jitter=0, lease="15s")

    async with Fleet(3, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(3602))
        setattr(runner(fleet, bodies.all[0]).faults, fault, True)
        await fleet.clock.advance_until(lambda: len(bodies.all) == 2)

        assert told == [pytest.approx(3600 + 15 - 1.5, abs=0.01)]
        assert bodies.all[1].began >= 3600 + 15


@pytest.mark.parametrize("count", [1, 3])
async def test_a_lost_reply_to_a_claim_is_asked_for_again_under_the_same_token(
    bodies: Bodies, count: int
) -> None:
    """G1: the store had granted it."""
    async with Fleet(2, job(bodies, "1m", 20, jitter=0), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(59))
        fleet[0].faults.loses["claim"] = count
        await fleet.clock.advance_to(slot(85))

        [attempt] = await fleet.history("sync")
        assert attempt.state is RunState.SUCCESS
        assert bodies.attempts() == [1]
        assert bodies.all[0].ctx.instance == fleet[0].scheduler.instance


@pytest.mark.parametrize("count", [1, 4])
async def test_a_lost_reply_to_a_finish_hears_the_same_answer_again(
    bodies: Bodies, count: int
) -> None:
    async with Fleet(1, job(bodies, "1m", 5, jitter=0), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(61))
        fleet[0].faults.loses["finish"] = count
        await fleet.clock.advance_to(slot(80))

        [attempt] = await fleet.history("sync")
        assert attempt.state is RunState.SUCCESS
        assert [e.slot for e in fleet.told(EventKind.SUCCESS)] == [slot(60)]
        assert fleet.told(EventKind.LEASE_LOST) == []


async def test_a_lost_reply_to_a_release_hears_the_same_answer_again(bodies: Bodies) -> None:
    declare = job(bodies, "1m", 50, jitter=0)
    async with Fleet(2, declare, clock=bodies.clock, grace=0) as fleet:
        await fleet.clock.advance_to(slot(61))
        leaver = runner(fleet, bodies.all[0])
        leaver.faults.loses["release"] = 1
        await fleet.stop(leaver)

        # asked once more only while there is grace; what was stored counts all the same
        await fleet.clock.advance(11)
        assert bodies.attempts() == [1, 2]
        history = await fleet.history("sync")
        assert history[0].state is RunState.INTERRUPTED


@pytest.mark.parametrize("count", [1, 2])
async def test_a_lost_reply_to_a_renewal_costs_no_lease(bodies: Bodies, count: int) -> None:
    async with Fleet(2, job(bodies, "5m", 60, jitter=0), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(301))
        runner(fleet, bodies.all[0]).faults.loses["renew"] = count
        await fleet.clock.advance_to(slot(370))

        [attempt] = await fleet.history("sync")
    assert attempt.state is RunState.SUCCESS
    assert not bodies.all[0].ctx.signal.is_set()


@pytest.mark.parametrize("verb", ["claim", "finish", "renew", "active"])
async def test_replies_lost_again_and_again_run_no_slot_twice(bodies: Bodies, verb: str) -> None:
    """G1, G2."""

    async with Fleet(3, job(bodies, "10s", 3), clock=bodies.clock) as fleet:
        for _ in range(30):
            for member in fleet.members:
                member.faults.loses[verb] = 1
            await fleet.clock.advance(7)
        await fleet.clock.advance_to(slot(305))

    assert bodies.slots() == sorted(set(bodies.slots()))
    assert len(bodies.all) >= 28


async def test_an_outage_is_one_line_when_it_begins_and_one_when_it_ends(
    bodies: Bodies, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "anarchon.store")
    async with Fleet(1, job(bodies, "1h", 30), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(3601))
        fleet[0].faults.away = True
        await fleet.clock.advance(600)
        fleet[0].faults.away = False
        await fleet.clock.advance(20)

    lines = [record.getMessage() for record in caplog.records if record.name == "anarchon.store"]
    assert ["away" in lines[0], "back" in lines[1], len(lines)] == [True, True, 2]


async def test_the_calls_of_an_instance_in_an_outage_are_few(bodies: Bodies) -> None:
    """A hundred jobs a minute wait for a store, not each for itself."""

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        for number in range(100):
            scheduler.every(f"job {number}", "1m", bodies.taking(clock))

    async with Fleet(1, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(30))
        fleet[0].faults.calls.clear()
        fleet[0].faults.away = True
        await fleet.clock.advance(600)

        # a claim and a release each few seconds, heartbeats for the tokens that are asked for
        assert sum(fleet[0].faults.calls.values()) < 600 / 2.5 * 4
        fleet[0].faults.away = False
        await fleet.clock.advance(PAUSE)
        fleet[0].faults.calls.clear()
        await fleet.clock.advance(60)
        assert sum(fleet[0].faults.calls.values()) <= 2 * 30


async def test_slots_without_an_answer_are_not_kept_one_by_one(bodies: Bodies) -> None:
    """However long a store is away, one question a job tells what became of them."""
    async with Fleet(1, job(bodies, "1s"), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(30))
        fleet[0].faults.away = True
        await fleet.clock.advance(600)

        assert len(leases_of(fleet[0]).runner.backups) <= 3


async def test_a_store_that_lost_its_data_loses_no_slot_to_come(bodies: Bodies) -> None:
    """G5."""
    async with Fleet(2, job(bodies), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(200))
        fleet.backend.restore(Saved())
        await fleet.clock.advance_to(slot(365))

    assert bodies.slots() == slots(60, 360, 60)
    fences = [b.ctx.fence for b in bodies.all]
    assert fences == sorted(set(fences))


async def test_a_store_that_lost_its_data_in_an_outage_knows_every_job_again_at_its_end(
    bodies: Bodies,
) -> None:
    """G8: the next slot is caught up also if everybody is gone before it."""

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("sync", "1h", bodies.taking(clock), offset="32m")
        scheduler.every("often", "10s", bodies.taking(clock))

    async with Fleet(1, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(1500))
        fleet[0].faults.away = True
        fleet.backend.restore(Saved())
        await fleet.clock.advance(60)
        fleet[0].faults.away = False
        await fleet.clock.advance_to(slot(1900))
        await fleet.stop(fleet[0])
        await fleet.clock.advance_to(slot(2000))
        await fleet.add()
        await fleet.clock.advance(60)

    assert bodies.slots("sync") == [slot(1920)]


async def test_a_run_whose_end_the_store_forgot_is_taken_over_within_the_hour(
    bodies: Bodies,
) -> None:
    """G6 after a lossy failover: everybody took it for ended, so that nobody watches it."""
    async with Fleet(2, job(bodies, "1d", 20, overlap="allow"), clock=bodies.clock) as fleet:
        day = 86_400
        await fleet.clock.advance_to(slot(day + 10))
        at_failover = fleet.backend.save()
        await fleet.clock.advance_to(slot(day + 40))
        fleet.backend.restore(at_failover)
        await fleet.clock.advance_to(slot(day + 40 + 3700))

        history = await fleet.history("sync")
    assert bodies.slots() == [slot(day), slot(day)]
    assert [(a.attempt, a.state) for a in history] == [
        (1, RunState.LOST),
        (2, RunState.SUCCESS),
    ]


async def test_a_run_that_the_store_lost_is_started_again_while_its_slot_is_in_time(
    bodies: Bodies,
) -> None:
    """G2 may fail once after a lossy failover; a slot that was under way is not lost by it."""
    async with Fleet(3, job(bodies, "10m", 30, lease="3s"), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(599))
        before_the_claim = fleet.backend.save()
        await fleet.clock.advance_to(slot(602))
        fleet.backend.restore(before_the_claim)
        await fleet.clock.advance_to(slot(700))

        history = await fleet.history("sync")
    assert bodies.slots() == [slot(600), slot(600)]
    assert [(a.slot, a.attempt, a.state) for a in history] == [(slot(600), 1, RunState.SUCCESS)]


async def test_a_run_that_the_store_lost_is_not_started_by_whom_its_slot_does_not_belong_to(
    bodies: Bodies,
) -> None:
    """G11: another edition of the schedule, in a rolling deploy, watches the run all the same."""
    intervals = iter(["10m", "15m"])

    def declare(scheduler: Scheduler, clock: Clock) -> object:
        return job(bodies, next(intervals), 30, lease="3s")(scheduler, clock)

    async with Fleet(1, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(599))
        before_the_claim = fleet.backend.save()
        await fleet.clock.advance_to(slot(601))
        await fleet.add()
        fleet[0].kill()
        fleet.backend.restore(before_the_claim)
        await fleet.clock.advance_to(slot(700))

    assert bodies.slots() == [slot(600)]


async def test_a_skipped_slot_is_not_started_when_the_run_in_its_way_is_gone(
    bodies: Bodies,
) -> None:
    """G9: it is watched though nobody runs it, as another instance may yet win it."""
    async with Fleet(2, job(bodies, "10s", 12, lease="3s"), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(39))

    assert bodies.slots() == [slot(10), slot(30)]


async def test_the_hourly_look_claims_nothing_and_tells_nothing_of_slots_that_are_done(
    bodies: Bodies,
) -> None:
    declare = job(bodies, "6h", max_late="5m", catch_up="6h")
    async with Fleet(2, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(6 * 3600 + 60))
        told, asked = len(fleet.events), fleet[0].faults.calls["claim"]
        await fleet.clock.advance_to(slot(11 * 3600))

        assert fleet[0].faults.calls["active"] > 3
        assert (len(fleet.events), fleet[0].faults.calls["claim"]) == (told, asked)
