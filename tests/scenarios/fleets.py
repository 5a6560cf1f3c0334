"""What scenarios do to an instance on its way to the store, and what must be left at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from anarchon.clock import Clock
from anarchon.scheduler import Scheduler
from anarchon.testing import Fleet, Member
from tests.engine.bodies import Bodies

Ask = Callable[[], Awaitable[Any]]
Meddle = Callable[[str, Ask], Awaitable[Any]]


def job(
    bodies: Bodies, interval: str = "10s", takes: float = 0, **options: Any
) -> Callable[[Scheduler, Clock], object]:
    """Declare one job, ``sync``."""

    def declare(scheduler: Scheduler, clock: Clock) -> object:
        return scheduler.every("sync", interval, bodies.taking(clock, takes), **options)

    return declare


def on_the_way(member: Member, meddle: Meddle) -> None:
    """Let ``meddle`` decide what becomes of every call of a member: its verb, and the call."""
    pass_on = member.faults.pass_on

    async def meddled(verb: str, call: Any) -> Any:
        return await meddle(verb, lambda: pass_on(verb, call))

    member.faults.pass_on = meddled  # type: ignore[method-assign]


def slow_down(member: Member, seconds: float) -> None:
    """Let every call of a member take so long on its way."""

    async def late(verb: str, ask: Ask) -> Any:
        await member.clock.sleep(seconds)
        return await ask()

    on_the_way(member, late)


class Nth:
    """The n-th call of a kind."""

    def __init__(self, verb: str, number: int) -> None:
        self._verb = verb
        self._left = number

    def has_come(self, verb: str) -> bool:
        """Count a call; tell whether it is the one."""
        if verb != self._verb:
            return False
        self._left -= 1
        return self._left == 0


async def for_ever() -> None:
    await asyncio.get_running_loop().create_future()


def open_runs(fleet: Fleet) -> list[str]:
    """Describe the runs that the store has as not ended."""
    return [
        f"{job}@{run.slot} attempt {run.attempt} of {run.instance}"
        for space in fleet.backend._namespaces.values()
        for job, record in space.records.items()
        for run in record.runs.values()
        if not run.state.has_ended
    ]
