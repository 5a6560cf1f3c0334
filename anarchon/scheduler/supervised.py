"""A scheduler on a thread of its own inside of somebody else's process, kept alive there.

Two threads: one has the scheduler and its loop, the other waits for that one to end. Should it
end without having been told to, whatever the reason, a new scheduler is made and started on a
new thread, after a pause that grows. A mistake in the configuration may be put right in the
store meanwhile, and the process is not ours to end.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from anarchon.clock import SystemClock, growing_pauses
from anarchon.scheduler.scheduler import Scheduler
from anarchon.threads import Flag, OSThread

log = logging.getLogger("anarchon.scheduler")

_PAUSES = 1.0, 60.0
#: Whoever lived so long did not end for what ended those before.
_LIVED_LONG = 300.0
#: What a stop may take longer than the grace of its scheduler.
_SPARE = 3.0


class SupervisedScheduler:
    """Makes, runs and replaces a scheduler; every method returns soon, and may be called again."""

    def __init__(self, make: Callable[[], Scheduler]) -> None:
        self._make = make
        self._told = Flag()
        self._clock = SystemClock()
        self._watch: OSThread | None = None
        self._life: _Life | None = None
        self._patience = _SPARE

    def __repr__(self) -> str:
        return f"<SupervisedScheduler: {self._life}>"

    def start(self) -> None:
        """Start, if it is not running and was not stopped; never waits for the store."""
        if self._told.is_set() or (self._watch is not None and self._watch.is_alive()):
            return
        self._watch = OSThread(self._keep_alive, "anarchon-watch")
        self._watch.start()

    def tell(self) -> None:
        """Tell it to hand over and end, and do not wait for that."""
        # a signal handler may come here while this thread is here: the flag has a lock
        if not self._told.is_set():
            self._told.set()
        if self._life is not None:
            self._life.end()

    def stop(self) -> None:
        """Hand over and end; returns when that is done, or has taken too long."""
        self.tell()
        if self._watch is None:
            return
        limit = self._patience if self._life is None else self._life.grace + _SPARE
        self._watch.join(limit)
        if self._watch.is_alive():
            log.warning("leaving %r behind; its leases will lapse", self._life)

    def _keep_alive(self) -> None:
        pauses = growing_pauses(*_PAUSES)
        while not self._told.is_set():
            began = self._clock.monotonic()
            failure = self._live_once()
            if self._told.is_set():
                return
            if self._clock.monotonic() - began > _LIVED_LONG:
                pauses = growing_pauses(*_PAUSES)
            pause = next(pauses)
            log.error(
                "the scheduler's thread has ended: %r; another starts in %.0f s",
                failure,
                pause,
                exc_info=failure,
            )
            self._told.wait(pause)

    def _live_once(self) -> BaseException | None:
        self._life = _Life(self._make, self._told)
        try:
            self._life.thread.start()
        except RuntimeError as error:
            # the system has no room for another thread now
            return error
        self._life.thread.join()
        return self._life.failure


class _Life:
    """One scheduler, from its making to its end."""

    def __init__(self, make: Callable[[], Scheduler], told: Flag) -> None:
        self._make = make
        self._told = told
        self._wake: Callable[[], object] = lambda: None
        self._scheduler: Scheduler | None = None
        self.failure: BaseException | None = None
        self.grace = 0.0
        self.thread = OSThread(self._run, "anarchon-scheduler")

    def __repr__(self) -> str:
        return repr(self._scheduler or self.thread)

    def end(self) -> None:
        """Wake it, so that it sees that it was told to end."""
        with contextlib.suppress(RuntimeError):  # its loop has ended by itself
            self._wake()

    def _run(self) -> None:
        try:
            asyncio.run(self._live())
        except BaseException as error:
            self.failure = error

    async def _live(self) -> None:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        self._scheduler = scheduler = self._make()
        self.grace = scheduler.grace.total_seconds()
        self._wake = lambda: loop.call_soon_threadsafe(ended.set)
        if self._told.is_set():
            return
        starting = asyncio.create_task(scheduler.start())
        ending = asyncio.create_task(ended.wait())
        try:
            await asyncio.wait({starting, ending}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                await starting
                await ending
        finally:
            # also when this thread is made to end from outside: a keeper that lives on would
            # renew the leases of what nobody works on
            starting.cancel()
            ending.cancel()
            await asyncio.gather(starting, ending, return_exceptions=True)
            await scheduler.stop()
