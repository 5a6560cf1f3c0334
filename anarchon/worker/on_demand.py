"""A thread with a loop that is there while there is something to do, and in no forked child."""

from __future__ import annotations

import asyncio
import logging
import os
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress

from anarchon.clock import Bell
from anarchon.threads import OSThread, native_lock

log = logging.getLogger("anarchon.worker")

#: How long the thread and its connection are kept while there is nothing to do.
IDLE = 10.0


class OnDemand(ABC):
    """Works on a thread of its own from a call on, until it may rest.

    A forked child has its parent's memory and none of its threads, so there it is as new.
    Nothing is closed in the child, for that could be heard on the parent's connections.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        _ALL.add(self)
        self.forget()

    def forget(self) -> None:
        """Be as new."""
        self._lock = native_lock()
        self._thread: OSThread | None = None
        self._former: OSThread | None = None
        self._ring: Callable[[], object] | None = None
        self._calls = 0
        self._closing = False

    def call(self) -> None:
        """Let it look at what there is to do, from any thread or greenlet; returns at once."""
        with self._lock:
            self._calls += 1
            if self._thread is not None:
                self._wake()
                return
            former = self._former
            thread = OSThread(lambda: self._live(thread, former), self._name)
            self._thread = thread
        try:
            thread.start()
        except RuntimeError as error:
            log.critical("no thread to talk to the store on: %s", error)
            self._end(thread, former, error)

    def close(self, seconds: float) -> None:
        """Come to an end; waits so long for that."""
        with self._lock:
            self._closing = True
            thread = self._thread or self._former
            self._wake()
        if thread is not None:
            thread.join(seconds)

    @abstractmethod
    async def work(self, bell: Bell) -> None:
        """Work until there is nothing to do; the bell is rung by every call."""

    def ended(self, error: BaseException | None) -> None:  # noqa: B027
        """Learn that the thread has ended, and from what, if it was not rest."""

    def may_rest(self, calls: int) -> bool:
        """Tell whether work may end, because nobody has called since so many calls."""
        with self._lock:
            if self._calls != calls:
                return False
            # whoever calls from here on starts another thread
            self._former, self._thread, self._ring = self._thread, None, None
            return True

    def _wake(self) -> None:
        if self._ring is not None:
            # its loop may have been closed a moment ago
            with suppress(RuntimeError):
                self._ring()

    def _live(self, thread: OSThread, former: OSThread | None) -> None:
        # its connection is to be gone before there is another
        if former is not None:
            former.join()
        error: BaseException | None = None
        try:
            asyncio.run(self._work())
        except BaseException as failure:
            error = failure
            log.exception("%s has died; it starts again when it is needed", self._name)
        finally:
            self._end(thread, thread, error)

    async def _work(self) -> None:
        bell, loop = Bell(), asyncio.get_running_loop()
        with self._lock:
            self._ring = lambda: loop.call_soon_threadsafe(bell.set)
        await self.work(bell)

    def _end(self, thread: OSThread, former: OSThread | None, error: BaseException | None) -> None:
        """Let another take the place of a thread, once this ``former`` one is over."""
        with self._lock:
            if self._thread is not thread:
                return  # it went to rest, and may have a successor
            self._former, self._thread, self._ring = former, None, None
        self.ended(error)


_ALL: weakref.WeakSet[OnDemand] = weakref.WeakSet()


def _forget_all() -> None:
    for one in list(_ALL):
        one.forget()


os.register_at_fork(after_in_child=_forget_all)
