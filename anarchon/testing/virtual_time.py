"""An event loop that never waits: when nothing is left to do, time jumps to the next timer.

Everything that happens on it happens in one thread and in one order, so that a run can be
repeated: a function meant for a thread is called on the loop itself. Its time starts at zero
and counts whole microseconds.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import itertools
import math
from collections.abc import Callable
from concurrent.futures import Executor
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from anarchon.clock import Clock, Timer

T = TypeVar("T")

_START = datetime(2026, 1, 1, tzinfo=UTC)
_FOR_EVER = 1e9


class VirtualLoop(asyncio.BaseEventLoop):
    """A loop in virtual time; it has no files and no sockets to wait for.

    It turns as asyncio's loop does, in the same order, without what that does for the rest of
    the world: a month of timers is to pass in a minute.
    """

    def __init__(self) -> None:
        super().__init__()
        self._gone = 0  # microseconds: a float would not add up over a month
        self._timers: list[tuple[int, int, asyncio.TimerHandle | _Alarm]] = []
        self._order = itertools.count()

    def time(self) -> float:
        return self._gone / 1_000_000

    def call_soon(  # type: ignore[override]  # as for call_at
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    def call_at(  # type: ignore[override]  # typed by what it is given, as everybody does
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        due = self._gone + max(0, math.ceil((when - self.time()) * 1_000_000 - 0.001))
        handle = asyncio.TimerHandle(due / 1_000_000, callback, args, self, context)
        heapq.heappush(self._timers, (due, next(self._order), handle))
        return handle

    def call_after(self, seconds: float, callback: Callable[[], object]) -> Timer:
        """Call back after so long, and not a hair before, in no context.

        Who is woken before the moment asked for would ask again, for ever.
        """
        alarm = _Alarm(callback)
        due = self._gone + math.ceil(seconds * 1_000_000)
        heapq.heappush(self._timers, (due, next(self._order), alarm))
        return alarm

    def _run_once(self) -> None:
        ready, timers = self._ready, self._timers  # type: ignore[attr-defined]
        if not ready and not self._stopping:  # type: ignore[attr-defined]
            while timers and timers[0][2].cancelled():
                heapq.heappop(timers)
            if not timers:
                raise RuntimeError("everybody waits, and nothing will ever happen")
            self._gone = max(self._gone, timers[0][0])
        while timers and timers[0][0] <= self._gone:
            ready.append(heapq.heappop(timers)[2])
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle.cancelled():
                handle._run()

    def _write_to_self(self) -> None:
        pass  # wakes a loop that waits, from another thread: this one does neither

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Call the function on the loop, as soon as it is its turn."""
        future: asyncio.Future[T] = self.create_future()

        def work() -> None:
            if future.cancelled():
                return
            try:
                result = func(*args)
            except BaseException as error:
                future.set_exception(error)
            else:
                self.hand_over(future, result)

        self.call_soon(work)
        return future

    def hand_over(self, future: asyncio.Future[T], result: T) -> None:
        """Give the result of a function to whoever awaits it; a place to take time in."""
        future.set_result(result)


class _Alarm:
    """A call that was put off; lighter than asyncio's."""

    __slots__ = ("_callback",)

    def __init__(self, callback: Callable[[], object]) -> None:
        self._callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self._callback = None

    def cancelled(self) -> bool:
        return self._callback is None

    def _run(self) -> None:
        assert self._callback is not None, "a cancelled one is never run"
        self._callback()


class VirtualClock(Clock):
    """The true time of a virtual loop."""

    manual = True

    def __init__(self, loop: VirtualLoop, start: datetime = _START) -> None:
        self._loop = loop
        self._start = start

    def monotonic(self) -> float:
        return self._loop.time()

    def wall(self) -> datetime:
        return self._start + timedelta(microseconds=self._loop._gone)

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        return self._loop.call_after(min(seconds, _FOR_EVER), callback)
