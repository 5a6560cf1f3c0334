"""Time as the engine sees it: the one place that asks the machine what time it is.

Whether something is due, late or lapsed is decided by the store's clock. A ``Clock`` only
says how much time has gone by here, and wakes us; its wall clock counts until the store
has answered once.
"""

from __future__ import annotations

import asyncio
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Protocol

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)


def to_millis(moment: datetime) -> int:
    """Return whole milliseconds since the epoch, rounded down: how stores keep a moment."""
    return (moment - EPOCH) // MILLISECOND


def from_millis(millis: int) -> datetime:
    """Return the UTC moment of so many milliseconds since the epoch."""
    return EPOCH + millis * MILLISECOND


def rfc3339(moment: datetime) -> str:
    """Write a UTC moment as RFC 3339 with milliseconds, and ``Z``."""
    utc = moment.astimezone(UTC).replace(tzinfo=None)
    return f"{utc.isoformat(timespec='milliseconds')}Z"


def growing_pauses(first: float, longest: float) -> Iterator[float]:
    """Yield seconds that double up to the longest, each cut short by chance: nobody keeps step."""
    while True:
        yield first * random.uniform(0.5, 1.0)
        first = min(first * 2, longest)


class Timer(Protocol):
    """A call that was put off, and may still be taken back."""

    def cancel(self) -> None:
        """Take the call back; does nothing once it was made."""


class Bell:
    """An event for one waiter at a time, on a clock; ``asyncio.Event`` with a limit costs more."""

    __slots__ = ("_is_set", "_waiter")

    def __init__(self) -> None:
        self._is_set = False
        self._waiter: asyncio.Future[None] | None = None

    def is_set(self) -> bool:
        """Tell whether it was set since it was cleared."""
        return self._is_set

    def set(self) -> None:
        """Wake the waiter, and whoever comes to wait; on the loop's thread only."""
        self._is_set = True
        self.wake()

    def clear(self) -> None:
        """Let whoever comes now wait for the next time."""
        self._is_set = False

    def waiter(self) -> asyncio.Future[None]:
        """Return what is done when it is set, or its time is over."""
        self._waiter = asyncio.get_running_loop().create_future()
        return self._waiter

    def wake(self) -> None:
        """Wake the waiter, set or not."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Clock(ABC):
    """How much time goes by, and how to be woken after some of it."""

    #: True where time moves only when a test says so; the engine then starts no threads
    #: that wait for time on their own.
    manual: bool = False

    @abstractmethod
    def monotonic(self) -> float:
        """Return seconds on a clock that nobody sets, and that runs on during suspend."""

    @abstractmethod
    def wall(self) -> datetime:
        """Return what this machine takes for the UTC time; wrong by any amount."""

    @abstractmethod
    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        """Call back on the running loop after so many seconds."""

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds; a time that has passed already lets the others go first."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def wake() -> None:
            if not waiter.done():
                waiter.set_result(None)

        timer = self.call_later(max(0.0, seconds), wake)
        try:
            await waiter
        finally:
            timer.cancel()

    def timeout(self, seconds: float) -> AbstractAsyncContextManager[None]:
        """Cancel the body after so many seconds, and raise ``TimeoutError`` in its place."""
        return _Limit(self, seconds)

    async def wait(self, bell: Bell, seconds: float) -> bool:
        """Wait for the bell, but not longer than so many seconds; tell whether it was set."""
        if not bell.is_set():
            timer = self.call_later(max(0.0, seconds), bell.wake)
            try:
                await bell.waiter()
            finally:
                timer.cancel()
        return bell.is_set()


class _Limit(AbstractAsyncContextManager[None]):
    # a generator would be shorter, and slower: every call to a store has a limit
    __slots__ = ("_clock", "_limit", "_seconds", "_timer")

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._limit = asyncio.timeout(None)

    async def __aenter__(self) -> None:
        await self._limit.__aenter__()
        self._timer = self._clock.call_later(self._seconds, self._end)

    def _end(self) -> None:
        self._limit.reschedule(asyncio.get_running_loop().time())

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        # raises TimeoutError itself where it was this limit that cancelled the body
        await self._limit.__aexit__(kind, error, trace)


class SystemClock(Clock):
    """The clock of this machine."""

    # time.monotonic() stands still while a Linux machine is suspended; the leases of a
    # laptop or a paused virtual machine lapse all the same.
    if hasattr(time, "CLOCK_BOOTTIME"):

        def monotonic(self) -> float:
            return time.clock_gettime(time.CLOCK_BOOTTIME)

    else:

        def monotonic(self) -> float:
            return time.monotonic()

    def wall(self) -> datetime:
        return datetime.now(UTC)

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        return asyncio.get_running_loop().call_later(seconds, callback)
