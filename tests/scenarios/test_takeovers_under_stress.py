"""Takeovers while something else is wrong too, and runs that must not be taken over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from anarchon.clock import Clock
from anarchon.errors import StoreError
from anarchon.events import EventKind
from anarchon.run import RunContext, RunState
from anarchon.scheduler import Scheduler
from anarchon.store import Claim, ClaimAnswer, Reply
from anarchon.testing import Fleet, Member
from tests.engine.bodies import Bodies, leases_of, runner, slot
from tests.scenarios.fleets import job, open_runs, slow_down

LEASE, HEARTBEAT = 15, 5


def poison(member: Member, job: str) -> list[bool]:
    """Let the store choke on every call that asks for this job; emptying the list ends it."""
    gatherer = leases_of(member)._asking._claims
    send, poisoned = gatherer._send, [True]

    async def choking(claims: Sequence[Claim]) -> Reply[ClaimAnswer]:
        if poisoned and any(claim.job == job for claim in claims):
            raise StoreError("memory://", "cannot read the record")
        return await send(claims)

    gatherer._send = choking
    return poisoned


async def test_of_a_hundred_takeovers_a_poisoned_one_stops_only_itself(bodies: Bodies) -> None:
    """G6, G10."""
    names = {f"job {number}" for number in range(100)}

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        for name in sorted(names):
            scheduler.at(name, slot(60), bodies.taking(clock, 40), lease=LEASE, jitter=0)

    async with Fleet(2, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(61))
        dead = runner(fleet, bodies.all[0])
        held = {b.ctx.job for b in bodies.all if b.ctx.instance == dead.scheduler.instance}
        assert held == names
        [backup] = [member for member in fleet.members if member is not dead]
        poisoned = poison(backup, "job 7")
        dead.kill()
        await fleet.clock.advance_to(slot(60 + LEASE + 2 * HEARTBEAT + 1))
        taken_over = {b.ctx.job for b in bodies.all if b.attempt == 2}
        assert taken_over == names - {"job 7"}

        poisoned.clear()
        await fleet.clock.advance(2 * HEARTBEAT + 10)
        assert {b.ctx.job for b in bodies.all if b.attempt == 2} == names
        await fleet.clock.advance(60)
        assert open_runs(fleet) == []


@pytest.mark.parametrize("seconds", [0.5, 2])
async def test_a_run_kept_alive_over_a_slow_way_is_never_taken_over(
    bodies: Bodies, seconds: float
) -> None:
    """G1: every call takes two seconds, of the runner and of those who watch it."""
    declare = job(bodies, "30m", 10 * LEASE, lease=LEASE, jitter=0)
    async with Fleet(3, declare, clock=bodies.clock) as fleet:
        for member in fleet.members:
            slow_down(member, seconds)
        await fleet.clock.advance_to(slot(1800 + 11 * LEASE))

        [attempt] = await fleet.history("sync")
        assert fleet.told(EventKind.TAKEOVER) == fleet.told(EventKind.LEASE_LOST) == []
    assert attempt.state is RunState.SUCCESS


async def test_what_a_thawed_runner_writes_is_refused_by_whoever_remembers_the_fence(
    bodies: Bodies,
) -> None:
    """G4, G5: the store refuses its end; a resource of the user's own can refuse its effects."""
    written: list[tuple[int, str]] = []
    refused: list[int] = []

    def write(ctx: RunContext, what: str) -> None:
        if written and ctx.fence < written[-1][0]:
            refused.append(ctx.attempt)
        else:
            written.append((ctx.fence, f"{what} of attempt {ctx.attempt}"))

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        async def work(ctx: RunContext) -> None:
            write(ctx, "begin")
            await bodies.taking(clock, 20)(ctx)
            write(ctx, "end")

        scheduler.every("sync", "10m", work, lease=LEASE, jitter=0)

    async with Fleet(2, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(602))
        frozen = runner(fleet, bodies.all[0])
        frozen.freeze()
        await fleet.clock.advance_until(lambda: len(bodies.all) == 2)
        await fleet.clock.advance(1)
        frozen.thaw()
        await fleet.clock.advance(60)

        history = await fleet.history("sync")
    assert [what for _, what in written] == [
        "begin of attempt 1",
        "begin of attempt 2",
        "end of attempt 2",
    ]
    assert refused == [1]
    assert [a.state for a in history] == [RunState.LOST, RunState.SUCCESS]


async def test_a_run_whose_thread_cannot_be_started_is_another_instance_s(
    bodies: Bodies, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G7: whoever was elected and cannot work gives the slot back at once."""
    ran: list[tuple[str, int]] = []

    def work(ctx: RunContext) -> None:
        ran.append((ctx.instance, ctx.attempt))

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("sync", "10m", work, lease=LEASE, jitter=0, max_attempts=1)

    async with Fleet(2, declare, clock=bodies.clock) as fleet:
        winner = fleet[0]
        life = winner.scheduler._life
        assert life is not None

        def refuse(*_: Any) -> Any:
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(life.executor._threads, "submit", refuse)
        await fleet.clock.advance_to(slot(600.1))
        assert ran == []
        winner.kill()
        await fleet.clock.advance_until(lambda: ran, within=2 * HEARTBEAT + 1)

        told = [e.instance for e in fleet.told(EventKind.HANDOVER)]
        assert told[:1] == [winner.scheduler.instance]
        assert ran == [(fleet[1].scheduler.instance, 2)]
