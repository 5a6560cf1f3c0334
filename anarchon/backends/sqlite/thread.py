"""A thread of a store's own, so that a call that waits for a disk never stops the loop.

SQLite has locks for the whole process. A child that is forked while one of them is held can
open no file ever again, so whoever forks waits for the calls that are under way.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TypeVar

from anarchon.threads import native_lock

T = TypeVar("T")

THREAD_NAME = "anarchon-sqlite"


class ForkedAway(Exception):
    """The thread was left behind in the parent process."""


class OwnThread:
    """Runs one call after the other on one thread, which is made when it is needed.

    A call that is given up while it runs is finished there all the same, and the next one
    waits for it; one that has not begun never does.
    """

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None
        self._process = 0
        self.under_way = native_lock()
        with _coming:
            _ALL.add(self)

    async def run(self, call: Callable[[], T]) -> T:
        """Return what the call returns; raises what it raises, and ``ForkedAway``."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, THREAD_NAME)
            self._process = os.getpid()
        elif self._process != os.getpid():
            raise ForkedAway
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, self._call, call)

    async def end(self, last: Callable[[], object]) -> None:
        """Make a last call, which cannot be given up, and let the thread end."""
        executor, self._executor = self._executor, None
        if executor is None or self._process != os.getpid():
            return
        ended = executor.submit(self._call, last)
        executor.shutdown(wait=False)
        await asyncio.shield(asyncio.wrap_future(ended))

    def _call(self, call: Callable[[], T]) -> T:
        with self.under_way:
            return call()


_ALL: weakref.WeakSet[OwnThread] = weakref.WeakSet()
#: Whoever comes while somebody forks waits: its calls would not have been waited for.
_coming = native_lock()
_waited_for: list[Lock] = []


def _wait_for_calls() -> None:
    _coming.acquire()
    for thread in list(_ALL):
        thread.under_way.acquire()
        _waited_for.append(thread.under_way)


def _go_on() -> None:
    while _waited_for:
        _waited_for.pop().release()
    _coming.release()


os.register_at_fork(before=_wait_for_calls, after_in_parent=_go_on, after_in_child=_go_on)
