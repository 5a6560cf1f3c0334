"""What handlers did, as the handlers themselves tell it: evidence from outside the store."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from anarchon.clock import Clock
from anarchon.run import RunContext
from anarchon.scheduler.by_leases import ByLeases
from anarchon.testing import Fleet, ManualClock, Member

START = datetime(2026, 1, 1, tzinfo=UTC)

Handler = Callable[[RunContext], Awaitable[object]]


def slot(seconds: float) -> datetime:
    """Return the moment so many seconds after every test begins."""
    return START + timedelta(seconds=seconds)


def slots(first: float, last: float, step: float) -> list[datetime]:
    """Return the slots of a grid, ends included."""
    count = round((last - first) / step) + 1
    return [slot(first + n * step) for n in range(count)]


@dataclass
class Body:
    """One start of a handler."""

    ctx: RunContext
    began: float
    ended: float | None = None

    @property
    def slot(self) -> datetime:
        return self.ctx.slot

    @property
    def attempt(self) -> int:
        return self.ctx.attempt


@dataclass
class Bodies:
    """Every body of a test, in the order in which they began, on one true clock."""

    clock: ManualClock = field(default_factory=ManualClock)
    all: list[Body] = field(default_factory=list)

    def taking(self, clock: Clock, seconds: float = 0, then: object = None) -> Handler:
        """Return a handler that takes so long, and then returns or raises what is given."""

        async def work(ctx: RunContext) -> object:
            body = Body(ctx, self.clock.monotonic())
            self.all.append(body)
            try:
                if seconds:
                    await clock.sleep(seconds)
            finally:
                body.ended = self.clock.monotonic()
            if isinstance(then, BaseException):
                raise then
            return then

        return work

    def slots(self, job: str | None = None) -> list[datetime]:
        """Return the slot of every body, oldest first, doubles included."""
        return sorted(body.slot for body in self.all if job in (None, body.ctx.job))

    def attempts(self) -> list[int]:
        return [body.attempt for body in self.all]

    def most_at_once(self) -> int:
        """Return how many bodies were under way at the same time."""
        changes = sorted(
            itertools.chain.from_iterable(
                ((body.began, 1), (body.ended if body.ended is not None else float("inf"), -1))
                for body in self.all
            )
        )
        return max(itertools.accumulate(change for _, change in changes), default=0)


def runner(fleet: Fleet, body: Body) -> Member:
    """Return the member a body ran on."""
    return fleet.member_of(body.ctx.instance)


def leases_of(member: Member) -> ByLeases:
    """Return what a running member has to do with its store."""
    life = member.scheduler._life
    assert life is not None
    assert isinstance(life.dealings, ByLeases)
    return life.dealings


def others(fleet: Fleet, member: Member) -> list[Member]:
    """Return all members but one."""
    return [m for m in fleet.members if m is not member]


async def threads_reach(fleet: Fleet, condition: object) -> None:
    """Let real threads go on until something holds: they wait for no clock."""
    assert callable(condition)
    for _ in range(2000):
        if condition():
            return
        await asyncio.get_running_loop().run_in_executor(None, threading.Event().wait, 0.001)
        await fleet.clock.advance(0.01)
    raise TimeoutError("the threads did not get there")
