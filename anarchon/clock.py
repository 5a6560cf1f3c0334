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
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Protocol

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)


def to_millis(moment: datetime) -> int:
    """Return whole milliseconds since the epoch, rounded down: how stores keep a moment."""
    return (moment - EPOCH) // MILLISECOND


def from_millis(millis: int) -> datetime:
    """Return the UTC moment of so many milliseconds since the epoch."""
    return EPOCH + timedelta(milliseconds=millis)


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

    @asynccontextmanager
    async def timeout(self, seconds: float) -> AsyncIterator[None]:
        """Cancel the body after so many seconds, and raise ``TimeoutError`` in its place."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(None) as limit:
            timer = self.call_later(seconds, lambda: limit.reschedule(loop.time()))
            try:
                yield
            finally:
                timer.cancel()

    async def wait(self, event: asyncio.Event, seconds: float) -> bool:
        """Wait for the event, but not longer than so many seconds; tell whether it is set."""
        try:
            async with self.timeout(seconds):
                await event.wait()
        except TimeoutError:
            return event.is_set()
        return True


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
