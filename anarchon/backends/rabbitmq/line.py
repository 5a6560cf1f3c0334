"""A thread of a connection's own, so that a call that waits for the server never stops the loop.

A call that is given up is no longer waited for, and ends at its next step. Where it hangs, its
thread is left behind together with its connection, and ends when that does.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from anarchon.backends.rabbitmq.link import HEARTBEAT, Link
from anarchon.clock import Clock
from anarchon.threads import Flag, OSThread

T = TypeVar("T")

THREAD_NAME = "anarchon-rabbitmq"

#: Connecting takes several round trips, and goes on when a call is given up that waits for it;
#: but not for longer than this, in seconds.
_CONNECTING = 10.0
#: A reply that is given up may still come, and the connection be used again; but not after this,
#: in seconds.
_REPLYING = 1.0
#: How long the end of a connection is waited for, in seconds.
_FAREWELL = 5.0


class ForkedAway(Exception):
    """The thread was left behind in the parent process."""


class Call:
    """Whether somebody still waits for what a call does."""

    def __init__(self) -> None:
        self.is_wanted = True


class Line:
    """A link, and the thread on which it is asked, one call after the other."""

    def __init__(self, link: Link, clock: Clock) -> None:
        self._link = link
        self._clock = clock
        self._process = os.getpid()
        self._work: deque[Callable[[], None]] = deque()
        self._has_work = Flag()
        self._is_ending = False
        self._tell_end: Callable[[], object] = _nobody
        OSThread(self._live, THREAD_NAME).start()

    @property
    def is_stuck(self) -> bool:
        """Tell whether a call that was given up still has the connection."""
        since = self._link.waiting_since
        if since is None or self._process != os.getpid():
            return False
        patience = _REPLYING if self._link.is_connected else _CONNECTING
        return self._clock.monotonic() - since > patience

    async def run(self, ask: Callable[[Link, Call], T]) -> T:
        """Return what the call returns; raises what it raises, and ``ForkedAway``."""
        if self._process != os.getpid():
            raise ForkedAway
        call = Call()
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def work() -> None:
            if call.is_wanted:
                _answer(answer, lambda: ask(self._link, call))

        self._add(work)
        try:
            return await answer
        finally:
            call.is_wanted = False

    async def end(self) -> None:
        """Let the connection go and the thread end, and wait for that, but not for long."""
        if self._process != os.getpid():
            return
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tell_end = lambda: _answer(ended, _nobody)
        if self._link.waiting_since is not None:
            self._link.interrupt()
        self._is_ending = True
        self._add(_nobody)
        try:
            async with self._clock.timeout(_FAREWELL):
                await ended
        except TimeoutError:
            self._link.interrupt()

    def abandon(self) -> None:
        """Let the connection go and the thread end, and wait for nothing."""
        self._is_ending = True
        self._link.interrupt()
        self._add(_nobody)

    def _add(self, work: Callable[[], None]) -> None:
        self._work.append(work)
        self._has_work.set()

    def _live(self) -> None:
        while not self._is_ending:
            if not self._has_work.wait(HEARTBEAT / 3):
                self._link.keep_alive()
                continue
            # before the work is taken: whatever is added from now on sets the new one
            self._has_work = Flag()
            while self._work:
                self._work.popleft()()
        self._link.close()
        self._tell_end()


def _answer(answer: asyncio.Future[T], ask: Callable[[], T]) -> None:
    """Ask, on this thread, and answer whoever waits on the thread of the loop."""
    try:
        result = ask()
        settle = partial(_settle, answer, lambda: answer.set_result(result))
    except Exception as error:
        settle = partial(_settle, answer, partial(answer.set_exception, error))
    try:
        answer.get_loop().call_soon_threadsafe(settle)
    except RuntimeError:
        # the loop was closed meanwhile, and nobody waits
        return


def _settle(answer: asyncio.Future[T], settle: Callable[[], None]) -> None:
    if not answer.done():
        settle()


def _nobody() -> None:
    """Do nothing, for nobody."""
