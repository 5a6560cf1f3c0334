"""A scheduler for code without an event loop: on a thread, with a loop of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self

from anarchon.threads import Flag, OSThread


class _Startable(Protocol):
    async def start(self) -> None: ...
    async def stop(self) -> None: ...


class BackgroundScheduler:
    """A running scheduler on a thread; stop it before the program ends, or leave the ``with``."""

    def __init__(self, scheduler: _Startable) -> None:
        self._scheduler = scheduler
        self._started = Flag()
        self._end: Callable[[], object] = lambda: None
        self._failure: BaseException | None = None
        self._thread = OSThread(lambda: asyncio.run(self._live()), "anarchon-scheduler")

    def start(self) -> Self:
        """Start; returns once the scheduler has, and raises what its start raised."""
        self._thread.start()
        self._started.wait()
        if self._failure is not None:
            self._thread.join()
            raise self._failure
        return self

    def stop(self) -> None:
        """Hand over and end; returns when nothing of the scheduler runs any more."""
        self._end()
        self._thread.join()

    async def _live(self) -> None:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        try:
            await self._scheduler.start()
        except BaseException as error:
            self._failure = error
            return
        finally:
            self._end = lambda: loop.is_closed() or loop.call_soon_threadsafe(ended.set)
            self._started.set()
        await ended.wait()
        await self._scheduler.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
