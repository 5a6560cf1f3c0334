"""A thread of a store's own, so that a call that waits for a disk never stops the loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

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

    async def run(self, call: Callable[[], T]) -> T:
        """Return what the call returns; raises what it raises, and ``ForkedAway``."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, THREAD_NAME)
            self._process = os.getpid()
        elif self._process != os.getpid():
            raise ForkedAway
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)

    async def end(self, last: Callable[[], object]) -> None:
        """Make a last call, which cannot be given up, and let the thread end."""
        executor, self._executor = self._executor, None
        if executor is None or self._process != os.getpid():
            return
        ended = executor.submit(last)
        executor.shutdown(wait=False)
        await asyncio.shield(asyncio.wrap_future(ended))
