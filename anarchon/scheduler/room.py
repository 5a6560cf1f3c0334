"""How much an instance may have under way at once.

An instance claims only what it can start at once. While it is full its claims wait, until
the slot is late, and other instances take them: this is what shares a burst.
"""

from __future__ import annotations

import asyncio

from anarchon.clock import Clock


class Room:
    """A number of places; whoever comes when all are taken waits in line."""

    def __init__(self, places: int | None, clock: Clock) -> None:
        self._clock = clock
        self._places = None if places is None else asyncio.Semaphore(places)

    async def enter(self, seconds: float) -> bool:
        """Take a place, waiting at most so many seconds; tell whether there was one."""
        if self._places is None:
            return True
        if not self._places.locked():
            return await self._places.acquire()
        if seconds <= 0:
            return False
        try:
            async with self._clock.timeout(seconds):
                return await self._places.acquire()
        except TimeoutError:
            return False

    def leave(self) -> None:
        """Give the place to the next in line."""
        if self._places is not None:
            self._places.release()
