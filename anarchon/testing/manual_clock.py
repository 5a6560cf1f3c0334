"""A clock that stands still until it is told to go on, and one view of it for each instance.

``advance`` goes from one moment at which something is due to the next, and lets everything
that follows from it happen before time moves on: a day passes in a blink, and the same way
every time.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from anarchon.clock import Clock, Timer

_START = datetime(2026, 1, 1, tzinfo=UTC)
#: More turns of the loop than this at one moment is a loop that will never rest.
_MOST_TURNS = 1_000_000


class _Timer:
    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self.callback = None

    def fire(self) -> None:
        callback, self.callback = self.callback, None
        if callback is not None:
            callback()


class ManualClock(Clock):
    """Time for a whole test: what ``wall`` says is the true time, the store's included."""

    manual = True

    def __init__(self, start: datetime = _START) -> None:
        self._start = start
        self._gone = 0  # microseconds: a float would not add up over a day
        self._timers: list[tuple[int, int, _Timer]] = []
        self._order = itertools.count()

    def __repr__(self) -> str:
        return f"<ManualClock {self.wall().isoformat()}>"

    def monotonic(self) -> float:
        return self._gone / 1_000_000

    def wall(self) -> datetime:
        return self._start + timedelta(microseconds=self._gone)

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        timer = _Timer(callback)
        if seconds != float("inf"):
            # rounded up: who is woken before the moment asked for would ask again for ever
            due = self._gone + math.ceil(seconds * 1_000_000)
            heapq.heappush(self._timers, (due, next(self._order), timer))
        return timer

    async def advance(self, seconds: float | timedelta) -> None:
        """Let so much time pass, and everything happen that is due in it."""
        length = seconds if isinstance(seconds, timedelta) else timedelta(seconds=seconds)
        await self.advance_to(self.wall() + length)

    async def advance_to(self, moment: datetime) -> None:
        """Let time pass until a moment, and everything happen that is due until then."""
        until = (moment - self._start) // timedelta(microseconds=1)
        await self.settle()
        while self._timers and self._timers[0][0] <= until:
            due, _, timer = heapq.heappop(self._timers)
            self._gone = max(self._gone, due)
            timer.fire()
            # timers of one moment fire together: who asks in one moment travels together
            while self._timers and self._timers[0][0] <= self._gone:
                heapq.heappop(self._timers)[2].fire()
            await self.settle()
        self._gone = max(self._gone, until)

    async def advance_until(
        self, condition: Callable[[], object], within: float = 3600.0, step: float = 0.05
    ) -> None:
        """Let time pass in steps until a condition holds; ``TimeoutError`` if it never does."""
        end = self.monotonic() + within
        while not condition():
            if self.monotonic() >= end:
                raise TimeoutError(f"not so within {within} s of the clock's time")
            await self.advance(step)

    async def settle(self) -> None:
        """Let everything happen that needs no time."""
        ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]
        for _ in range(_MOST_TURNS):
            await asyncio.sleep(0)  # noqa: TID251 - the loop itself is what is waited for
            if not ready:
                return
        raise RuntimeError("something keeps the loop busy without waiting for anything")


class InstanceClock(Clock):
    """One instance's view of the true time, which it may have all wrong.

    Its wall clock may be off, its seconds may be a little too long (``rate`` of them go by in a
    true second), it may be woken up to ``wakes_early_by`` seconds early, and it may be frozen.
    """

    manual = True

    def __init__(self, clock: Clock, *, wall_is_off_by: timedelta = timedelta(0)) -> None:
        self._clock = clock
        self.wall_is_off_by = wall_is_off_by
        self.rate = 1.0
        self.wakes_early_by = 0.0
        self.is_frozen = False
        self._held: list[_Timer] = []

    def monotonic(self) -> float:
        return self._clock.monotonic() * self.rate

    def wall(self) -> datetime:
        return self._clock.wall() + self.wall_is_off_by

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        timer = _OwnTimer(self, callback)
        seconds = seconds / self.rate
        if self.wakes_early_by:
            # of a short time not all: who is woken early for ever would ask for ever
            seconds -= min(self.wakes_early_by, seconds / 2) * random.random()
        timer.behind = self._clock.call_later(seconds, timer.come_due)
        return timer

    def freeze(self) -> None:
        """Wake for nothing from now on, as a process under SIGSTOP."""
        self.is_frozen = True

    def thaw(self) -> None:
        """Go on: everything that came due meanwhile is due now."""
        self.is_frozen = False
        held, self._held = self._held, []
        for timer in held:
            timer.fire()


class _OwnTimer(_Timer):
    """A timer of an instance, behind that of the true time: who is frozen does not hear it."""

    __slots__ = ("_owner", "behind")
    behind: Timer

    def __init__(self, owner: InstanceClock, callback: Callable[[], object]) -> None:
        super().__init__(callback)
        self._owner = owner

    def come_due(self) -> None:
        if self._owner.is_frozen:
            self._owner._held.append(self)
        else:
            self.fire()

    def cancel(self) -> None:
        self.callback = None
        self.behind.cancel()
