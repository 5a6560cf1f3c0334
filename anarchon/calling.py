"""One call of a store at a time, each with a deadline, for everybody on a loop.

``anarchon.gathering`` makes calls of the questions asked here, and asks again what got no
answer. Every answer carries the store's time, which ``anarchon.store_time`` learns from; the
end of an outage is told, with its length.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar

from anarchon.clock import Clock
from anarchon.errors import OutcomeUnknown, StoreError, StoreUnavailable
from anarchon.gathering import Gatherer, TimedOut
from anarchon.run import Attempt
from anarchon.store import Reply
from anarchon.store_time import StoreTime

log = logging.getLogger("anarchon.store")

#: Calls nobody's lease waits for, and opening, which may have to migrate.
PATIENCE = 10.0
#: Seconds between two words about a store that does not answer for all jobs.
_TOLD_AGAIN = 60.0

T = TypeVar("T")


def is_being_cancelled() -> bool:
    """Tell whether a cancellation is meant for the calling task, or came from inside a driver."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class Connection(Protocol):
    """What the ports of all kinds of stores have."""

    @property
    def label(self) -> str: ...

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def history(self, jobs: Sequence[str], limit: int) -> Reply[Attempt]: ...


class Calling:
    """Calls one store, one call at a time, for everybody on this loop."""

    def __init__(
        self,
        store: Connection,
        clock: Clock,
        *,
        time: StoreTime | None = None,
        back_after_outage: Callable[[float], None] | None = None,
    ) -> None:
        self.time = time if time is not None else StoreTime(clock)
        self._connection = store
        self.clock = clock
        self._is_open = False
        self.is_closed = False
        self._turn = asyncio.Lock()
        self._back_after_outage = back_after_outage
        self._away_since: float | None = None
        self._told_next = float("-inf")
        self._gatherers: tuple[Gatherer[Any, Any], ...] = ()

    def __repr__(self) -> str:
        state = "away" if self._away_since is not None else "open" if self._is_open else "new"
        return f"<{type(self).__name__} {self.label}: {state}>"

    @property
    def label(self) -> str:
        """The store as it may be shown."""
        return self._connection.label

    @property
    def is_answering(self) -> bool:
        """Tell whether the last call was answered."""
        return self._is_open and self._away_since is None

    async def history(self, jobs: Sequence[str], limit: int) -> Reply[Attempt]:
        """Return the newest attempts of these jobs; raises what the store raises."""
        return await self.reply(lambda: self._connection.history(jobs, limit))

    async def reply(self, ask: Callable[[], Awaitable[Reply[T]]]) -> Reply[T]:
        """Make one call that nobody's lease waits for."""
        reply, _ = await self.call(ask, PATIENCE)
        return reply

    async def call(
        self, ask: Callable[[], Awaitable[Reply[T]]], deadline: float
    ) -> tuple[Reply[T], float]:
        """Make one call in turn; return the reply, and when it was sent."""
        async with self._turn:
            if self.is_closed:
                raise self.closed()
            try:
                if not self._is_open:
                    await self._open()
                before = self.clock.monotonic()
                try:
                    async with self.clock.timeout(deadline):
                        reply = await ask()
                except (TimeoutError, asyncio.CancelledError) as error:
                    if is_being_cancelled():
                        raise asyncio.CancelledError from error
                    # long before the deadline it is the driver's own, and may come again at once
                    if self.clock.monotonic() - before < deadline / 2:
                        raise OutcomeUnknown(self.label, f"gave up: {error!r}") from error
                    raise TimedOut(self.label, f"no answer within {deadline:.1f} s") from None
            except (StoreUnavailable, OutcomeUnknown) as error:
                if error.partly:
                    self._note_silence(error)
                else:
                    self._note_failure(error)
                raise
            except StoreError:
                raise
            except Exception as error:
                # an adapter's mistake; whoever asks counts on a store error, come what may
                log.exception("store failed: %s", self.label)
                raise StoreError(self.label, f"failed: {error!r}") from error
            after = self.clock.monotonic()
            self.time.observe(before, after, reply.time)
            self._note_success(after)
            return reply, before

    async def _open(self) -> None:
        try:
            async with self.clock.timeout(PATIENCE):
                await self._connection.open()
        except (TimeoutError, asyncio.CancelledError) as error:
            if is_being_cancelled():
                raise asyncio.CancelledError from error
            problem = f"could not be opened within {PATIENCE:.0f} s"
            raise StoreUnavailable(self.label, problem) from error
        self._is_open = True

    def _note_failure(self, error: StoreError) -> None:
        if self._away_since is None:
            self._away_since = self.clock.monotonic()
            log.warning("store away: %s; asked again until it answers", error)

    def _note_silence(self, error: StoreError) -> None:
        """Tell now and then of a store that answers, but not for all jobs."""
        now = self.clock.monotonic()
        if now >= self._told_next:
            self._told_next = now + _TOLD_AGAIN
            log.warning("store answers for some jobs only: %s; asked again until it does", error)

    def _note_success(self, now: float) -> None:
        if self._away_since is None:
            return
        away, self._away_since = now - self._away_since, None
        log.warning("store back: %s answers again after %.1f s", self.label, away)
        for gatherer in self._gatherers:
            gatherer.hurry()
        if self._back_after_outage is not None:
            self._back_after_outage(away)

    def closed(self) -> StoreUnavailable:
        """Return what whoever asks after the end hears."""
        return StoreUnavailable(self.label, "closed")

    async def close(self) -> None:
        """Stop asking and let the connection go; whoever asks hears ``StoreUnavailable``."""
        self.is_closed = True
        for gatherer in self._gatherers:
            await gatherer.close()
        async with self._turn:
            await self._connection.close()
            self._is_open = False
