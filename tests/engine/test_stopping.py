"""A stop hands over, whatever was under way; nothing of the scheduler goes on after it."""

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from anarchon.clock import Clock
from anarchon.errors import NotRunning
from anarchon.events import Event, EventKind
from anarchon.run import RunContext, RunState
from anarchon.scheduler import Scheduler
from anarchon.scheduler.timers import Due
from anarchon.store import Claim
from anarchon.testing import Fleet, Member
from tests.engine.bodies import Bodies, leases_of, others, runner, slot, slots

LEASE, HEARTBEAT = 15.0, 5.0


def long_job(bodies: Bodies, **options: Any) -> Callable[[Scheduler, Clock], None]:
    def declare(scheduler: Scheduler, clock: Clock) -> None:
        work = bodies.taking(clock, 40)

        async def obedient(ctx: RunContext) -> None:
            body = asyncio.ensure_future(work(ctx))
            told = asyncio.ensure_future(ctx.signal.wait())
            await asyncio.wait({body, told}, return_when=asyncio.FIRST_COMPLETED)
            told.cancel()
            if not body.done():
                body.cancel()
                await asyncio.wait({body})
            ctx.signal.raise_if_set()

        scheduler.every("sync", "1m", obedient, jitter=0, **options)

    return declare


def tasks_of_the_engine() -> list[str]:
    return [t.get_name() for t in asyncio.all_tasks() if t.get_name().startswith("anarchon")]


async def test_a_stopped_run_is_handed_over_within_two_heartbeats(bodies: Bodies) -> None:
    """G7."""
    async with Fleet(2, long_job(bodies), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(70))
        leaver = runner(fleet, bodies.all[0])
        await fleet.stop(leaver)
        at = fleet.clock.monotonic()
        await fleet.clock.advance_until(lambda: len(bodies.all) == 2)

        assert fleet.clock.monotonic() - at <= 2 * HEARTBEAT + 0.1
        assert bodies.attempts() == [1, 2]
        assert bodies.most_at_once() == 1
        await fleet.clock.advance(45)
        history = await fleet.history("sync")
        assert [a.state for a in history[:2]] == [RunState.INTERRUPTED, RunState.SUCCESS]
        [interrupted], [handover] = (
            fleet.told(EventKind.INTERRUPTED),
            fleet.told(EventKind.HANDOVER),
        )
        assert (interrupted.reason, interrupted.instance) == ("stop", handover.instance)


async def test_a_hand_over_is_not_counted_as_a_lapsed_attempt(bodies: Bodies) -> None:
    """``max_attempts`` limits attempts that lapsed."""

    declare = long_job(bodies, max_attempts=2)
    async with Fleet(4, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(61))
        for count in range(1, 4):
            await fleet.stop(runner(fleet, bodies.all[-1]))
            await fleet.clock.advance_until(lambda count=count: len(bodies.all) > count)  # type: ignore[misc]

        assert bodies.attempts() == [1, 2, 3, 4]
        assert bodies.slots() == [slot(60)] * 4


async def test_a_run_of_one_attempt_ends_as_interrupted(bodies: Bodies) -> None:
    """G7, ``max_attempts=1``: it may have done half of its work."""
    async with Fleet(2, long_job(bodies, max_attempts=1), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(70))
        await fleet.stop(runner(fleet, bodies.all[0]))
        await fleet.clock.advance_to(slot(119))

        [attempt] = await fleet.history("sync")
    assert attempt.state is RunState.INTERRUPTED
    assert bodies.slots() == [slot(60)]


async def test_a_coroutine_that_does_not_listen_is_cancelled_after_the_grace_period(
    bodies: Bodies,
) -> None:
    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("sync", "1m", bodies.taking(clock, 50), jitter=0)

    async with Fleet(2, declare, clock=bodies.clock, grace="7s") as fleet:
        await fleet.clock.advance_to(slot(70))
        await fleet.stop(runner(fleet, bodies.all[0]))

        assert bodies.all[0].ended == pytest.approx(77, abs=0.1)
        assert fleet.clock.monotonic() == pytest.approx(77, abs=0.2)
        await fleet.clock.advance(2 * HEARTBEAT + 0.1)
        assert bodies.attempts() == [1, 2]


async def test_a_run_that_ends_within_the_grace_period_is_a_success(bodies: Bodies) -> None:
    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("sync", "1m", bodies.taking(clock, 15), jitter=0)

    async with Fleet(2, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(70))
        await fleet.stop(runner(fleet, bodies.all[0]))
        await fleet.clock.advance_to(slot(119))

        [attempt] = await fleet.history("sync")
    assert attempt.state is RunState.SUCCESS
    assert bodies.attempts() == [1]


async def test_a_handler_that_raises_after_the_signal_has_not_failed(bodies: Bodies) -> None:
    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("sync", "1m", bodies.taking(clock, 15, then=OSError("cut")), jitter=0)

    async with Fleet(1, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(70))
        await fleet.stop(fleet[0])

        [attempt] = await fleet.history("sync")
    assert attempt.state is RunState.INTERRUPTED


async def test_a_thread_keeps_its_lease_until_it_ends_however_short_the_grace(
    bodies: Bodies,
) -> None:
    """G7: two bodies never run side by side by our doing."""
    began, may_end = threading.Event(), threading.Event()
    instances: list[str] = []

    def stubborn(ctx: RunContext) -> None:
        instances.append(ctx.instance)
        began.set()
        may_end.wait(20)

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.at("sync", slot(60), stubborn, jitter=0)

    async with Fleet(2, declare, clock=bodies.clock, grace=0) as fleet:
        await fleet.clock.advance_to(slot(61))
        began.wait(5)
        leaver = next(m for m in fleet.members if m.scheduler.instance == instances[0])
        stopping = asyncio.create_task(leaver.scheduler.stop())
        await fleet.clock.advance(10 * LEASE)
        assert not stopping.done()
        assert len(instances) == 1
        [running] = await fleet.history("sync")
        assert running.state is RunState.RUNNING

        may_end.set()
        await asyncio.get_running_loop().run_in_executor(None, lambda: None)
        await fleet.clock.advance_until(stopping.done)
        [attempt] = await fleet.history("sync")
    assert attempt.state is RunState.SUCCESS
    assert len(instances) == 1


async def test_a_stop_while_waiting_for_the_jitter_claims_nothing(bodies: Bodies) -> None:
    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("sync", "1m", bodies.taking(clock), jitter="5s", catch_up=0)

    async with Fleet(1, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(59.99))
        await fleet.stop(fleet[0])
        await fleet.clock.advance(60)

        assert await fleet.history("sync") == []
        assert fleet[0].faults.calls["claim"] == 0


async def test_a_stop_in_the_moment_a_slot_is_due_claims_nothing(bodies: Bodies) -> None:
    """The timer has fired and the claim is not yet sent: with one attempt it would be spent."""

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("sync", "1m", bodies.taking(clock), jitter=0, max_attempts=1)

    async with Fleet(2, declare, clock=bodies.clock) as fleet:
        first = fleet[0]
        await fleet.clock.advance_to(slot(59))
        life = first.scheduler._life
        assert life is not None
        hand_out = life._hand_out

        def stopped(due: Due) -> None:
            hand_out(due)
            life.core.is_stopping = True

        life._hand_out = stopped  # type: ignore[method-assign]
        await fleet.clock.advance_to(slot(61))
        await fleet.stop(first)
        await fleet.clock.advance(10)

        assert first.faults.calls["claim"] == 0
        assert bodies.slots() == [slot(60)]


async def test_a_stop_does_not_wait_for_a_slot_that_a_clock_put_off(bodies: Bodies) -> None:
    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("sync", "1m", bodies.taking(clock), jitter=0)

    async with Fleet(1, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(59.9))
        fleet.store_is_off_by = -timedelta(hours=1)
        await fleet.clock.advance_to(slot(65))
        await fleet.stop(fleet[0])

        assert fleet.clock.monotonic() < 66
        assert tasks_of_the_engine() == []


async def test_a_stop_does_not_wait_for_a_slot_that_is_put_off_meanwhile(bodies: Bodies) -> None:
    async with Fleet(1, long_job(bodies), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(59.9))
        fleet.store_is_off_by = -timedelta(hours=1)
        gate = hold_claims(fleet[0])
        await fleet.clock.advance_to(slot(61))
        stopping = asyncio.create_task(fleet[0].scheduler.stop())
        await fleet.clock.advance(1)
        assert not stopping.done()

        gate.set()
        await fleet.clock.advance_until(stopping.done)

        assert fleet.clock.monotonic() < 63
        assert tasks_of_the_engine() == []


@pytest.mark.parametrize("max_attempts", [3, 1])
async def test_a_claim_that_wins_while_stopping_is_given_back(
    bodies: Bodies, max_attempts: int
) -> None:
    """Also a run of one attempt, which nobody has begun."""
    declare = long_job(bodies, max_attempts=max_attempts)
    async with Fleet(2, declare, clock=bodies.clock) as fleet:
        first, second = fleet.members
        second.clock.freeze()
        await fleet.clock.advance_to(slot(59))
        gate = hold_claims(first)
        await fleet.clock.advance_to(slot(61))
        stopping = asyncio.create_task(first.scheduler.stop())
        await fleet.clock.advance(1)
        assert not stopping.done()

        gate.set()
        await fleet.clock.advance_until(stopping.done)

        assert bodies.all == []
        [attempt] = await fleet.history("sync")
        assert attempt.state is RunState.INTERRUPTED
        second.thaw()
        await fleet.clock.advance(2 * HEARTBEAT + 0.1)
        assert bodies.attempts() == [2]


async def test_a_claim_whose_reply_is_lost_while_stopping_leaves_no_lease(
    bodies: Bodies,
) -> None:
    async with Fleet(2, long_job(bodies), clock=bodies.clock) as fleet:
        first, second = fleet.members
        second.clock.freeze()
        await fleet.clock.advance_to(slot(59))
        gate = hold_claims(first)
        first.faults.loses["claim"] = 1
        await fleet.clock.advance_to(slot(61))
        stopping = asyncio.create_task(first.scheduler.stop())
        await fleet.clock.advance(1)
        gate.set()
        await fleet.clock.advance_until(stopping.done)

        second.thaw()
        await fleet.clock.advance(2 * HEARTBEAT + 0.1)
        assert bodies.attempts() == [2]


async def test_a_stop_while_the_end_is_on_the_wire_stores_the_end(bodies: Bodies) -> None:
    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("sync", "1m", bodies.taking(clock, 1), jitter=0)

    async with Fleet(1, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(60.5))
        fleet[0].faults.loses["finish"] = 3
        await fleet.clock.advance_to(slot(61.01))
        await fleet.stop(fleet[0])

        [attempt] = await fleet.history("sync")
    assert attempt.state is RunState.SUCCESS
    assert fleet[0].faults.calls["release"] == 0


@pytest.mark.parametrize("fault", ["away", "silent"])
async def test_a_stop_without_the_store_ends_soon_after_the_grace_period(
    bodies: Bodies, fault: str
) -> None:
    async with Fleet(1, long_job(bodies), clock=bodies.clock, grace="5s") as fleet:
        await fleet.clock.advance_to(slot(61))
        setattr(fleet[0].faults, fault, True)
        await fleet.stop(fleet[0])

        assert fleet.clock.monotonic() <= 61 + 5 + 2 * 5 + 0.2
        assert bodies.all[0].ended == 61
        setattr(fleet[0].faults, fault, False)
        await fleet.clock.advance(60)
        assert tasks_of_the_engine() == []


@pytest.mark.parametrize("fault", ["away", "silent"])
@pytest.mark.parametrize("at", [59.0, 60.001, 60.5, 62.0, 63.001])
async def test_a_stop_at_any_moment_leaves_no_task_behind(
    bodies: Bodies, at: float, fault: str
) -> None:
    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("sync", "1m", bodies.taking(clock, 3), jitter="500ms")
        scheduler.every("other", "1m", bodies.taking(clock, 2), jitter=0, timeout="1s")

    async with Fleet(1, declare, clock=bodies.clock, grace=0) as fleet:
        await fleet.clock.advance_to(slot(at))
        setattr(fleet[0].faults, fault, True)
        await fleet.stop(fleet[0])
        setattr(fleet[0].faults, fault, False)
        opened = fleet[0].faults.calls["open"]
        await fleet.clock.advance(120)

        assert tasks_of_the_engine() == []
        assert fleet[0].faults.calls["open"] == opened
        assert all(body.ended is not None for body in bodies.all)


async def test_an_abandoned_lease_is_taken_over_within_two_heartbeats(bodies: Bodies) -> None:
    """The last act of a process that must go though its handler still runs."""

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("sync", "1h", bodies.taking(clock, 600), jitter=0)

    async with Fleet(2, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(3610))
        leaver = runner(fleet, bodies.all[0])
        leaving = asyncio.create_task(leaver.scheduler.abandon())
        await fleet.clock.advance_until(leaving.done)
        leaver.kill()
        await fleet.clock.advance(2 * HEARTBEAT + 0.1)

        assert bodies.attempts() == [1, 2]
        assert len(others(fleet, leaver)) == 1


async def test_a_scheduler_may_be_started_again_as_another_instance(bodies: Bodies) -> None:
    async with Fleet(1, long_job(bodies), clock=bodies.clock) as fleet:
        scheduler = fleet[0].scheduler
        first = scheduler.instance
        await fleet.stop(fleet[0])
        with pytest.raises(NotRunning):
            _ = scheduler.instance
        await fleet.stop(fleet[0])  # harmless

        await fleet._start(fleet[0])

        assert scheduler.instance != first
        with pytest.raises(NotRunning):
            await scheduler.start()
        await fleet.clock.advance_to(slot(185))
    assert bodies.slots() == slots(60, 180, 60)


def hold_claims(member: Member) -> asyncio.Event:
    """Keep the member's next claims on the wire until the event is set."""
    gate = asyncio.Event()
    gatherer = leases_of(member)._asking._claims
    send = gatherer._send

    async def held(claims: list[Claim]) -> object:
        await gate.wait()
        return await send(claims)

    gatherer._send = held  # type: ignore[assignment]
    return gate


async def test_a_callback_that_never_ends_does_not_outlive_the_scheduler(bodies: Bodies) -> None:
    def declare(scheduler: Scheduler, clock: Clock) -> None:
        async def hang(event: Event) -> None:
            await asyncio.Event().wait()

        scheduler.on("start", hang)
        scheduler.every("sync", "1m", bodies.taking(clock), jitter=0)

    async with Fleet(1, declare, clock=bodies.clock, grace="2s") as fleet:
        await fleet.clock.advance_to(slot(61))
        await fleet.stop(fleet[0])

        assert tasks_of_the_engine() == []


@pytest.mark.parametrize("fault", ["away", "silent"])
async def test_a_start_that_is_cancelled_leaves_nothing_behind(bodies: Bodies, fault: str) -> None:
    fleet = Fleet(1, long_job(bodies), clock=bodies.clock)
    setattr(fleet[0].faults, fault, True)
    starting = asyncio.create_task(fleet[0].scheduler.start())
    await fleet.clock.advance(0 if fault == "away" else 3)
    starting.cancel()
    await fleet.clock.advance(30)

    if fault == "away":  # it was done already: that a store is away is no error
        await fleet.stop(fleet[0])
    else:
        assert starting.cancelled()
    assert tasks_of_the_engine() == []
    assert "not running" in repr(fleet[0].scheduler)


async def test_a_handler_that_waits_for_its_own_end_is_refused(bodies: Bodies) -> None:
    refused: list[NotRunning] = []

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        async def suicidal(ctx: RunContext) -> None:
            try:
                await scheduler.stop()
            except NotRunning as error:
                refused.append(error)

        scheduler.every("sync", "10s", suicidal, jitter=0)

    async with Fleet(1, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(25))

        assert len(refused) == 2
        assert fleet[0].scheduler.is_ready


async def test_a_stop_that_was_cancelled_may_be_called_again(bodies: Bodies) -> None:
    async with Fleet(1, long_job(bodies), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(61))
        stopping = asyncio.create_task(fleet[0].scheduler.stop())
        await fleet.clock.advance(1)
        stopping.cancel()
        await asyncio.gather(stopping, return_exceptions=True)

        await fleet.stop(fleet[0])

        assert tasks_of_the_engine() == []
        assert "not running" in repr(fleet[0].scheduler)


async def test_stopping_twice_at_once_is_stopping_once(bodies: Bodies) -> None:
    async with Fleet(2, long_job(bodies), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(61))
        leaver = runner(fleet, bodies.all[0])
        both = [asyncio.create_task(leaver.scheduler.stop()) for _ in range(2)]
        await fleet.clock.advance_until(lambda: all(task.done() for task in both))
        await asyncio.gather(*both)

        assert len(fleet.told(EventKind.HANDOVER)) == 1
        await fleet.clock.advance(2 * HEARTBEAT + 0.1)
        assert bodies.attempts() == [1, 2]


async def test_a_stop_while_starting_ends_the_start(bodies: Bodies) -> None:
    fleet = Fleet(1, long_job(bodies), clock=bodies.clock)
    fleet[0].faults.silent = True
    starting = asyncio.create_task(fleet[0].scheduler.start())
    await fleet.clock.advance(3)
    stopping = asyncio.create_task(fleet[0].scheduler.stop())
    await fleet.clock.advance(60)
    await asyncio.gather(starting, stopping, return_exceptions=True)

    assert tasks_of_the_engine() == []
    fleet[0].faults.silent = False
    await fleet.clock.advance_to(slot(130))
    assert bodies.all == []
