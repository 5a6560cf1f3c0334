"""Runs whose runner died or froze are taken over in time, and nothing else is."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from anarchon.clock import Clock
from anarchon.events import EventKind
from anarchon.run import RunState
from anarchon.scheduler import Scheduler
from anarchon.store import Claim, ClaimAnswer, Reply
from anarchon.testing import Fleet
from tests.engine.bodies import Bodies, leases_of, others, runner, slot, slots

LEASE, HEARTBEAT = 15.0, 5.0
#: The claims and looks of one moment gather for so long.
CALL = 0.1


def long_job(
    bodies: Bodies, takes: float = 30, **options: Any
) -> Callable[[Scheduler, Clock], object]:
    def declare(scheduler: Scheduler, clock: Clock) -> object:
        settled = {"lease": LEASE, "jitter": 0, **options}
        return scheduler.every("sync", "10m", bodies.taking(clock, takes), **settled)

    return declare


@pytest.mark.parametrize("at", [600.02, 603, 604.99, 605.01, 629])
@pytest.mark.parametrize("how", ["kill", "freeze"])
async def test_a_run_is_taken_over_within_its_lease_and_two_heartbeats(
    bodies: Bodies, at: float, how: str
) -> None:
    """G6, counted from the last renewal."""
    async with Fleet(2, long_job(bodies), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(at))
        lost = runner(fleet, bodies.all[0])
        getattr(lost, how)()
        renewed = at - (at - 600) % HEARTBEAT
        await fleet.clock.advance_until(lambda: len(bodies.all) == 2)

        began = bodies.all[1].began
        assert renewed + LEASE <= began <= renewed + LEASE + 2 * HEARTBEAT + CALL
        await fleet.clock.advance(31)
        history = await fleet.history("sync")
    assert [(a.attempt, a.state) for a in history] == [
        (1, RunState.LOST),
        (2, RunState.SUCCESS),
    ]


async def test_a_short_lease_is_taken_over_sooner(bodies: Bodies) -> None:
    declare = long_job(bodies, lease="3s")
    async with Fleet(2, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(602.9))
        runner(fleet, bodies.all[0]).kill()
        await fleet.clock.advance(3 + 2 + CALL)

    assert bodies.attempts() == [1, 2]


async def test_a_run_that_is_kept_alive_is_never_taken_over(bodies: Bodies) -> None:
    async with Fleet(3, long_job(bodies, 10 * LEASE), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(600 + 11 * LEASE))

        assert fleet.told(EventKind.TAKEOVER) == []
        [attempt] = await fleet.history("sync")
    assert attempt.state is RunState.SUCCESS


async def test_only_one_of_many_backups_takes_a_run_over(bodies: Bodies) -> None:
    """G1."""
    async with Fleet(6, long_job(bodies), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(601))
        runner(fleet, bodies.all[0]).kill()
        await fleet.clock.advance(60)

    assert bodies.attempts() == [1, 2]


async def test_a_run_out_of_attempts_ends_as_lost(bodies: Bodies) -> None:
    """G6: while ``max_attempts`` is not reached."""
    async with Fleet(4, long_job(bodies, max_attempts=2), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(601))
        runner(fleet, bodies.all[-1]).kill()
        await fleet.clock.advance_until(lambda: len(bodies.all) == 2)
        runner(fleet, bodies.all[-1]).kill()
        await fleet.clock.advance(60)

        assert bodies.attempts() == [1, 2]
        history = await fleet.history("sync")
        assert [(a.attempt, a.state) for a in history] == [
            (1, RunState.LOST),
            (2, RunState.LOST),
        ]
        # nobody asks for it any more
        for member in fleet.members:
            member.faults.calls.clear()
        await fleet.clock.advance(60)
        assert sum(m.faults.calls["claim"] for m in fleet.members) == 0


async def test_a_run_of_one_attempt_is_never_started_again(bodies: Bodies) -> None:
    async with Fleet(3, long_job(bodies, max_attempts=1), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(601))
        runner(fleet, bodies.all[-1]).kill()
        await fleet.clock.advance(60)

        [attempt] = await fleet.history("sync")
    assert (attempt.attempt, attempt.state) == (1, RunState.LOST)
    assert bodies.attempts() == [1]


async def test_an_instance_started_during_a_run_takes_it_over_too(bodies: Bodies) -> None:
    """G6: also who never met the slot."""
    async with Fleet(1, long_job(bodies), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(602))
        await fleet.add()
        fleet[0].kill()
        await fleet.clock.advance(LEASE + 2 * HEARTBEAT + CALL)

    assert bodies.attempts() == [1, 2]


async def test_a_job_declared_while_its_run_is_under_way_elsewhere_is_backed_up_at_once(
    bodies: Bodies,
) -> None:
    late_comers: list[tuple[Scheduler, Clock]] = []

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        if not late_comers:
            long_job(bodies)(scheduler, clock)
        late_comers.append((scheduler, clock))

    async with Fleet(2, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(602))
        long_job(bodies)(*late_comers[1])
        await fleet.clock.advance(0.1)
        fleet[0].kill()
        await fleet.clock.advance(LEASE + 2 * HEARTBEAT + CALL)

    assert bodies.attempts() == [1, 2]


async def test_the_next_slot_replaces_a_run_that_lapsed(bodies: Bodies) -> None:
    """G6: or replaced by the job's next slot, whichever comes first."""

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("sync", "20s", bodies.taking(clock, 60), lease="18s", jitter=0)

    async with Fleet(2, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(21.5))
        runner(fleet, bodies.all[0]).kill()
        await fleet.clock.advance_to(slot(55))

        assert [(b.slot, b.attempt) for b in bodies.all][1] in [(slot(20), 2), (slot(40), 1)]
        assert len(bodies.all) == 2
        history = await fleet.history("sync")
    assert history[0].state is RunState.LOST


async def test_a_backup_of_the_run_that_was_in_the_way_takes_it_over(bodies: Bodies) -> None:
    """It met the run only by an overlap, and no newer slot replaces it for an hour."""

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.cron("sync", "0,1 * * * *", bodies.taking(clock, 130), lease=LEASE, jitter=0)

    async with Fleet(1, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(3630))
        second = await fleet.add()
        # it forgets what it was told at start, and learns of the run from its next slot
        leases_of(second).runner.backups._watched.clear()
        await fleet.clock.advance_to(slot(3661))
        assert fleet.told(EventKind.SKIP)[-1].reason == "overlap"
        fleet[0].kill()
        await fleet.clock.advance(LEASE + 2 * HEARTBEAT + CALL)

    assert [(b.slot, b.attempt) for b in bodies.all][1:] == [(slot(3600), 1), (slot(3600), 2)]


async def test_who_was_late_for_a_slot_backs_up_whoever_was_not(bodies: Bodies) -> None:
    declare = long_job(bodies, max_late="5s")
    async with Fleet(2, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(599))
        fleet[0].clock.freeze()
        await fleet.clock.advance_to(slot(608))
        fleet[0].clock.thaw()
        await fleet.clock.advance_to(slot(609))
        assert [e.reason for e in fleet.told(EventKind.SKIP)] == ["late"]
        fleet[1].kill()
        await fleet.clock.advance(LEASE + 2 * HEARTBEAT + CALL)

    assert bodies.attempts() == [1, 2]


async def test_a_slot_that_was_skipped_is_watched_as_long_as_somebody_may_start_it(
    bodies: Bodies,
) -> None:
    """Who starts it half a minute late, when nothing is in its way any more, may die too."""
    declare = long_job(bodies, takes=615)
    async with Fleet(3, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(610))
        first = runner(fleet, bodies.all[0])
        late, _ = others(fleet, first)
        await fleet.clock.advance_to(slot(1190))
        late.freeze()
        await fleet.clock.advance_to(slot(1230))
        late.thaw()
        await fleet.clock.advance_to(slot(1232))
        assert [(b.slot, runner(fleet, b)) for b in bodies.all] == [
            (slot(600), first),
            (slot(1200), late),
        ]
        late.kill()
        await fleet.clock.advance(LEASE + 2 * HEARTBEAT + CALL)

    assert [(b.slot, b.attempt) for b in bodies.all[2:]] == [(slot(1200), 2)]


async def test_runs_of_slots_that_were_jumped_over_here_are_backed_up_here(
    bodies: Bodies,
) -> None:
    """The gap was too short to look for everything again."""

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every(
            "sync", "4s", bodies.taking(clock, 100), lease=LEASE, jitter=0, overlap="allow"
        )

    async with Fleet(2, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(7))
        fleet[0].clock.freeze()
        await fleet.clock.advance_to(slot(19))
        fleet[0].clock.thaw()
        await fleet.clock.advance(0.5)
        assert [e.count for e in fleet.told(EventKind.SKIP) if e.reason == "missed"] == [1]
        fleet[1].kill()
        await fleet.clock.advance(LEASE + 2 * HEARTBEAT + CALL)

    assert {b.slot for b in bodies.all if b.attempt == 2} >= {slot(8), slot(12), slot(16)}


async def test_a_claim_whose_answer_came_after_its_trust_starts_no_handler(
    bodies: Bodies,
) -> None:
    """The process was frozen between the question and the answer."""
    async with Fleet(1, long_job(bodies), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(599))
        gatherer, gate = leases_of(fleet[0])._asking._claims, asyncio.Event()
        send = gatherer._send

        async def held_up(claims: Sequence[Claim]) -> Reply[ClaimAnswer]:
            reply = await send(claims)
            await gate.wait()
            return reply

        gatherer._send = held_up
        await fleet.clock.advance_to(slot(600.01))
        fleet[0].clock.freeze()
        await fleet.clock.advance(14)
        gate.set()
        await fleet.clock.settle()
        fleet[0].clock.thaw()
        await fleet.clock.advance(2 * HEARTBEAT + 1)

        started = [event.attempt for event in fleet.told(EventKind.START)]
    assert bodies.attempts() == started == [2]


async def test_several_runs_of_a_job_that_may_overlap_are_each_taken_over(
    bodies: Bodies,
) -> None:
    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every(
            "sync", "10s", bodies.taking(clock, 60), lease="15s", jitter=0, overlap="allow"
        )

    async with Fleet(2, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(31))
        lost = runner(fleet, bodies.all[0])
        kept = {b.slot for b in bodies.all if b.ctx.instance != bodies.all[0].ctx.instance}
        lost.kill()
        await fleet.clock.advance_to(slot(31 + LEASE + 2 * HEARTBEAT + CALL))

        again = sorted(b.slot for b in bodies.all if b.attempt == 2)
    assert again == [moment for moment in slots(10, 30, 10) if moment not in kept]


async def test_a_dead_instance_is_not_missed_by_the_slots_after(bodies: Bodies) -> None:
    async with Fleet(3, long_job(bodies, 5), clock=bodies.clock) as fleet:
        for number in range(2):
            await fleet.clock.advance_to(slot(600 * (number + 1) + 100))
            fleet[number].kill()
        await fleet.clock.advance_to(slot(600 * 5 + 100))

    assert bodies.slots() == slots(600, 3000, 600)


async def test_a_frozen_runner_is_told_and_its_end_is_refused(bodies: Bodies) -> None:
    """G4."""
    async with Fleet(2, long_job(bodies, 30), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(602))
        frozen = runner(fleet, bodies.all[0])
        frozen.freeze()
        await fleet.clock.advance(45)
        assert bodies.attempts() == [1, 2]
        frozen.thaw()
        await fleet.clock.advance(20)

        assert bodies.all[0].ctx.signal.reason == "lease_lost"
        history = await fleet.history("sync")
        refused = fleet.told(EventKind.LEASE_LOST)
    assert [(a.attempt, a.state) for a in history] == [
        (1, RunState.LOST),
        (2, RunState.SUCCESS),
    ]
    assert [(e.attempt, e.instance) for e in refused] == [(1, bodies.all[0].ctx.instance)]
    assert bodies.all[1].ctx.fence > bodies.all[0].ctx.fence


async def test_a_frozen_runner_that_nobody_replaced_keeps_its_result(bodies: Bodies) -> None:
    """Nobody may have taken the run yet: the store decides."""
    async with Fleet(1, long_job(bodies, 30), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(602))
        fleet[0].freeze()
        await fleet.clock.advance(100)
        fleet[0].thaw()
        await fleet.clock.advance(10)

        [attempt] = await fleet.history("sync")
    assert attempt.state is RunState.SUCCESS


async def test_a_run_interrupted_by_a_lost_lease_is_run_again_by_whoever_is_there(
    bodies: Bodies,
) -> None:
    def declare(scheduler: Scheduler, clock: Clock) -> None:
        async def obedient(ctx: Any) -> None:
            work = asyncio.ensure_future(bodies.taking(clock, 40)(ctx))
            told = asyncio.ensure_future(ctx.signal.wait())
            await asyncio.wait({work, told}, return_when=asyncio.FIRST_COMPLETED)
            for task in (work, told):
                task.cancel()
            await asyncio.wait({work, told})
            ctx.signal.raise_if_set()

        scheduler.every("sync", "10m", obedient, jitter=0)

    async with Fleet(1, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(602))
        fleet[0].faults.away = True
        await fleet.clock.advance(30)
        assert bodies.all[0].ended == pytest.approx(600 + LEASE - 1.5, abs=0.1)
        fleet[0].faults.away = False
        await fleet.clock.advance(5 + 2 * HEARTBEAT + CALL + 40)

        history = await fleet.history("sync")
        reasons = [e.reason for e in fleet.told(EventKind.INTERRUPTED)]
    assert [a.state for a in history] == [RunState.INTERRUPTED, RunState.SUCCESS]
    assert reasons == ["lease_lost"]


async def test_a_runner_that_lost_its_lease_watches_the_run_it_lost(bodies: Bodies) -> None:
    """G6: the one who took it over may die too."""
    async with Fleet(2, long_job(bodies, 60), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(602))
        first = runner(fleet, bodies.all[0])
        first.freeze()
        await fleet.clock.advance_until(lambda: len(bodies.all) == 2)
        first.thaw()
        await fleet.clock.advance(40)
        [second] = others(fleet, first)
        second.kill()
        await fleet.clock.advance(70)

    assert [(b.attempt, runner(fleet, b)) for b in bodies.all] == [
        (1, first),
        (2, second),
        (3, first),
    ]
