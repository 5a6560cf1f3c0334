"""Connecting for calls that may be given up before there is a connection.

A call has a deadline, which on a slow network may be shorter than connecting takes. So an
attempt is no call's own: it goes on when the call that began it is given up, and the next one
finds what came of it, or waits for it. A keeper with short heartbeats would otherwise never
renew again once it lost its connection.

Where calls were given up that way, one that had to wait for a new connection has hardly any of
its time left. It is told to come again, rather than cut off in the middle of its question,
which would cost the connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from anarchon.clock import SystemClock
from anarchon.errors import StoreUnavailable

#: In seconds. Where connecting took no longer, a call takes no more than two thirds of it: the
#: deadline that comes with the shortest lease, a third of a second, is enough for both.
_LONG = 0.2

C = TypeVar("C")


class Connecting(Generic[C]):
    """The way to one connection, by one attempt at a time; ``make`` also keeps what it made."""

    def __init__(self, label: str, make: Callable[[], Awaitable[C]]) -> None:
        self._label = label
        self._make = make
        self._clock = SystemClock()
        self._attempt: asyncio.Task[C] | None = None
        self._took = 0.0
        self._calls_are_short = False

    async def connect(self) -> C:
        """Return what the attempt under way comes to, or a new one; raises what it raises."""
        if self._attempt is None or self._attempt.done():
            loop = asyncio.get_running_loop()
            self._attempt = loop.create_task(self._run(), name="anarchon-connect")
            self._attempt.add_done_callback(_hear)
        attempt = self._attempt
        # it goes on if whoever waits here is cancelled
        await asyncio.wait((attempt,))
        return attempt.result()

    async def connect_in_a_call(self) -> C:
        """Connect for a call that is still to ask; raises ``StoreUnavailable`` if it should not."""
        connection = await self.connect()
        if self._calls_are_short and self._took > _LONG:
            problem = f"connecting took {self._took:.1f} s, too long for this call"
            raise StoreUnavailable(self._label, problem)
        return connection

    @contextmanager
    def in_a_call(self) -> Iterator[None]:
        """Learn whether a call that has to connect is given up before it is answered."""
        before = self._clock.monotonic()
        try:
            yield
        except asyncio.CancelledError:
            self._calls_are_short |= self._clock.monotonic() - before > _LONG
            raise

    async def end(self) -> None:
        """Give up the attempt under way, and wait for its end."""
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            attempt.cancel()
            await asyncio.wait((attempt,))

    async def _run(self) -> C:
        before = self._clock.monotonic()
        connection = await self._make()
        self._took = self._clock.monotonic() - before
        return connection


def _hear(attempt: asyncio.Task[C]) -> None:
    # of a failure that nobody waited for, asyncio would warn
    if not attempt.cancelled():
        attempt.exception()
