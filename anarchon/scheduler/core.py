"""What the parts of one scheduler share: who we are, the time, what happened, and the end."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from anarchon.clock import Clock
from anarchon.events import Event, EventKind
from anarchon.store_time import StoreTime

log = logging.getLogger("anarchon.scheduler")

Callback = Callable[[Event], object]

_LEVELS = {
    EventKind.SKIP: logging.DEBUG,
    EventKind.FAILURE: logging.ERROR,
    EventKind.ERROR: logging.ERROR,
    EventKind.LEASE_LOST: logging.WARNING,
    EventKind.TAKEOVER: logging.WARNING,
}
#: A slot taken by somebody else is what happens to most slots; these are worth a line.
_TOLD_SKIPS = {"late": logging.INFO, "missed": logging.WARNING, "overlap": logging.INFO}


class SchedulerCore:
    """The small interface the parts of one scheduler share."""

    def __init__(self, namespace: str, instance: str, clock: Clock, time: StoreTime) -> None:
        self.namespace = namespace
        self.instance = instance
        self.clock = clock
        self.time = time
        self.is_stopping = False
        #: Nobody waits any more for what still runs, or for a store that is silent.
        self.grace_is_over = False
        self.callbacks: dict[EventKind, list[Callback]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._droppable: set[asyncio.Task[Any]] = set()

    def now(self) -> datetime:
        """Return the store's time."""
        return self.time.now()

    def emit(self, kind: EventKind, job: str, **fields: Any) -> None:
        """Log an event and tell whoever asked for it; what they raise hurts nobody else."""
        event = Event(kind, job, self.instance, **fields)
        level = _LEVELS.get(kind, logging.INFO)
        if kind is EventKind.SKIP:
            level = _TOLD_SKIPS.get(event.reason or "", level)
        if log.isEnabledFor(level):
            # the traceback of a user's error is written here, and nowhere else
            cause = event.error if kind is EventKind.FAILURE else None
            log.log(level, event.line(), exc_info=cause, extra={"event": event})
        for callback in self.callbacks.get(kind, ()):
            try:
                told = callback(event)
                if inspect.isawaitable(told):
                    self.spawn(_await(callback, told), f"anarchon-on-{kind}")
            except (Exception, SystemExit):
                log.exception("callback failed: %r on %s", callback, event.line())

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run work beside the caller; ``settle`` awaits it."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("internal error in %s", task.get_name(), exc_info=task.exception())

    @contextmanager
    def droppable(self) -> Iterator[None]:
        """Let a stop cancel the calling task in here: it waits, and has asked for nothing yet."""
        task = asyncio.current_task()
        assert task is not None, "only tasks wait"
        if self.is_stopping:
            raise asyncio.CancelledError
        self._droppable.add(task)
        try:
            yield
        finally:
            self._droppable.discard(task)

    def drop_waiting(self) -> None:
        """Cancel what only waits for its moment."""
        for task in list(self._droppable):
            task.cancel()

    def cancel_rest(self) -> None:
        """Cancel what was spawned and has not ended: a callback or a broker that hangs."""
        for task in list(self._tasks):
            task.cancel()

    def spawned(self, task: asyncio.Task[Any] | None) -> bool:
        """Tell whether a task is one of those that ``settle`` awaits."""
        return task in self._tasks

    async def settle(self, seconds: float) -> bool:
        """Wait until everything that was spawned has ended; tell whether it has."""
        try:
            async with self.clock.timeout(seconds):
                while self._tasks:
                    await asyncio.wait(set(self._tasks))
        except TimeoutError:
            return not self._tasks
        return True


async def _await(callback: Callback, told: Any) -> None:
    try:
        await told
    except (Exception, SystemExit):
        log.exception("callback failed: %r", callback)
