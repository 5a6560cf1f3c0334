"""A call of the store fails, in any way, once or for an hour."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest

from anarchon.clock import Clock
from anarchon.errors import OutcomeUnknown, StoreError, StoreUnavailable
from anarchon.events import EventKind
from anarchon.run import RunState
from anarchon.scheduler import Scheduler
from anarchon.testing import Fleet
from tests.engine.bodies import Bodies, others, runner, slot, slots
from tests.scenarios.fleets import Ask, Nth, job, on_the_way, open_runs

#: The longest pause between two tries of one kind.
PAUSE = 5.0

Fail = Callable[[], object]


def fails(make: Callable[[], BaseException]) -> Fail:
    """Return what raises an error made for the occasion: one object would gather tracebacks."""

    def fail() -> object:
        raise make()

    return fail


ERRORS: dict[str, Fail] = {
    "away": fails(lambda: StoreUnavailable("memory://", "away")),
    "unknown": fails(lambda: OutcomeUnknown("memory://", "no answer")),
    "refused": fails(lambda: StoreError("memory://", "cannot read the record")),
    "reset": fails(lambda: ConnectionResetError("reset by peer")),
    "too late": fails(lambda: TimeoutError("the driver's own")),
    "mistake": fails(lambda: KeyError("a field that is not there")),
    "cancelled": fails(lambda: asyncio.CancelledError("a task inside the driver was")),
}
any_error = pytest.mark.parametrize("fail", ERRORS.values(), ids=ERRORS)


@pytest.mark.parametrize("done", [False, True], ids=["before it was done", "after it was done"])
@any_error
async def test_a_claim_that_fails_starts_nothing_whatever_it_fails_with(
    bodies: Bodies, fail: Fail, done: bool
) -> None:
    """G1: an error is no answer; afterwards everybody goes on."""
    failing = False

    async def meddle(verb: str, ask: Ask) -> object:
        if failing and verb == "claim":
            if done:
                await ask()
            fail()
        return await ask()

    async with Fleet(2, job(bodies), clock=bodies.clock) as fleet:
        for member in fleet.members:
            on_the_way(member, meddle)
        await fleet.clock.advance_to(slot(35))
        failing = True
        await fleet.clock.advance_to(slot(95))
        assert bodies.slots() == slots(10, 30, 10)

        failing = False
        await fleet.clock.advance_to(slot(205))
    assert bodies.slots() == sorted(set(bodies.slots()))
    assert bodies.slots()[-9:] == slots(120, 200, 10)


@pytest.mark.parametrize("verb", ["open", "active"])
@pytest.mark.parametrize("kind", ["away", "unknown", "too late", "cancelled"])
async def test_a_start_that_fails_starts_nothing_before_the_store_knows_us(
    bodies: Bodies, kind: str, verb: str
) -> None:
    """G8: who has not registered does not know what is missed, late, or another's."""
    asked: list[str] = []
    failing = True
    fleet = Fleet(1, job(bodies, jitter=0), clock=bodies.clock)

    async def meddle(called: str, ask: Ask) -> object:
        asked.append(called)
        if failing and called == verb:
            ERRORS[kind]()
        return await ask()

    on_the_way(fleet[0], meddle)
    async with fleet:
        await fleet.clock.advance_to(slot(35))
        assert set(asked) <= {"open", "active"}
        failing = False
        await fleet.clock.advance_to(slot(75))

    assert asked.index("active") < asked.index("claim")
    assert bodies.slots()[-3:] == slots(50, 70, 10)


@pytest.mark.parametrize("kind", ["away", "mistake", "cancelled"])
async def test_after_an_hour_of_errors_a_scheduler_is_back_within_seconds(
    bodies: Bodies, kind: str
) -> None:
    """G8: however many calls have failed, with whatever error."""
    failing, fail = False, ERRORS[kind]

    async def meddle(verb: str, ask: Ask) -> object:
        if failing and verb != "open":
            fail()
        return await ask()

    async with Fleet(2, job(bodies, "1m"), clock=bodies.clock) as fleet:
        for member in fleet.members:
            on_the_way(member, meddle)
        await fleet.clock.advance_to(slot(70))
        failing = True
        await fleet.clock.advance(3600)
        assert bodies.slots() == [slot(60)]

        failing = False
        await fleet.clock.advance_to(slot(3660 + 60 + PAUSE + 1))
        assert slot(3720) in bodies.slots()
        await fleet.clock.advance_to(slot(4025))
    assert bodies.slots() == sorted(set(bodies.slots()))
    assert bodies.slots()[-6:] == slots(3720, 4020, 60)


@any_error
async def test_a_heartbeat_that_fails_for_less_than_a_lease_costs_nothing(
    bodies: Bodies, fail: Fail
) -> None:
    """G6: and is not tried in a circle."""
    failing, tries = False, 0

    async def meddle(verb: str, ask: Ask) -> object:
        nonlocal tries
        if failing and verb == "renew":
            tries += 1
            fail()
        return await ask()

    async with Fleet(2, job(bodies, "10m", 60, jitter=0), clock=bodies.clock) as fleet:
        for member in fleet.members:
            on_the_way(member, meddle)
        await fleet.clock.advance_to(slot(611))
        failing = True
        await fleet.clock.advance(8)
        failing = False
        await fleet.clock.advance(60)

        [attempt] = await fleet.history("sync")
    assert attempt.state is RunState.SUCCESS
    assert not bodies.all[0].ctx.signal.is_set()
    assert 1 <= tries <= 8


@any_error
async def test_a_run_whose_claims_fail_is_asked_for_now_and_then_not_in_a_circle(
    bodies: Bodies, fail: Fail
) -> None:
    """As where its record cannot be read, which may last until somebody mends it."""
    failing, tries = False, 0

    async def meddle(verb: str, ask: Ask) -> object:
        nonlocal tries
        if failing:
            tries += 1
            if verb == "claim":
                fail()
        return await ask()

    declare = job(bodies, "1h", 100, jitter=0, max_late="10s", catch_up="10m")
    async with Fleet(2, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(3601))
        dead = runner(fleet, bodies.all[0])
        [backup] = others(fleet, dead)
        on_the_way(backup, meddle)
        failing = True
        dead.kill()
        await fleet.clock.advance(300)

        # a heartbeat is 5 s; a claim, its release, and a look at what there is
        assert tries <= 3 * 300 / 2.5
        failing = False
        await fleet.clock.advance(20)
    assert bodies.attempts() == [1, 2]


@pytest.mark.parametrize("done", [False, True], ids=["before it was done", "after it was done"])
@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize("verb", ["open", "active", "claim", "renew", "finish", "release", "prune"])
async def test_a_call_that_failed_once_leaves_everything_as_if_it_had_not(
    bodies: Bodies, verb: str, number: int, done: bool
) -> None:
    """G1, G2: no slot is lost, none is run again, and nothing stays locked."""
    point, failed = Nth(verb, number), Counter[str]()

    async def meddle(called: str, ask: Ask) -> object:
        if not point.has_come(called):
            return await ask()
        failed[called] += 1
        if done:
            await ask()
            raise OutcomeUnknown("memory://", "no answer")
        raise StoreUnavailable("memory://", "away")

    declare = job(bodies, "30s", 8, lease="6s", jitter=0)
    fleet = Fleet(2, declare, clock=bodies.clock, grace=0)
    on_the_way(fleet[0], meddle)
    async with fleet:
        await fleet.clock.advance_to(slot(615))
        # within a run, so that there is something to release
        await fleet.clock.advance_to(slot(631))
        await fleet.stop(fleet[0])
        await fleet.clock.advance_to(slot(685))

        history = await fleet.history("sync")
        assert open_runs(fleet) == []
        assert fleet.told(EventKind.LEASE_LOST) == []
    assert failed or number > 1
    assert {a.slot for a in history} == set(slots(30, 660, 30))
    ended = [(a.slot, a.state) for a in history if a.slot != slot(630)]
    assert ended == [
        (moment, RunState.SUCCESS) for moment in slots(30, 660, 30) if moment != slot(630)
    ]
    at_the_stop = [a.state for a in history if a.slot == slot(630)]
    assert at_the_stop in (
        [RunState.SUCCESS],
        [RunState.INTERRUPTED, RunState.SUCCESS],
        # a release that failed is not tried for longer than the grace, which was none
        [RunState.LOST, RunState.SUCCESS],
    )
    if verb != "release" or done:
        assert RunState.LOST not in at_the_stop


async def test_any_error_anywhere_in_a_run_leaves_the_next_slot_to_fire(bodies: Bodies) -> None:
    """G10: in the handler, in a callback, at its start and at its end."""
    numbers = iter(range(100))

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        async def work(ctx: object) -> None:
            await bodies.taking(clock)(ctx)  # type: ignore[arg-type]
            raise [ValueError("no"), SystemExit(3), asyncio.CancelledError(), OSError(28, "full")][
                next(numbers) % 4
            ]

        def refuse(event: object) -> None:
            raise RuntimeError("a callback's own")

        for kind in EventKind:
            scheduler.on(kind, refuse)
        scheduler.every("sync", "10s", work)

    async with Fleet(2, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(125))

        states = {a.state for a in await fleet.history("sync")}
    assert bodies.slots() == slots(10, 120, 10)
    assert states == {RunState.FAILED}
