"""Threads of the operating system, also where gevent has put greenlets in their place.

asyncio keeps one running loop a thread of the operating system, and gevent's threads are all
one such thread: a second loop there breaks both. So whatever of the engine has a loop of its
own lives on a thread that is started here. Such a thread has a hub of gevent's of its own, in
which its loop runs, and so do the greenlets that stand for threads started from it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from importlib import import_module
from typing import Any


class Flag:
    """Is set once, from any thread, and waited for in any thread or greenlet.

    A greenlet that waits lets the others run.
    """

    def __init__(self) -> None:
        self._lock = native_lock()
        self._is_set = False
        self._wakers: list[Callable[[], object]] = []

    def set(self) -> None:
        """Wake whoever waits."""
        with self._lock:
            self._is_set = True
            for wake in self._wakers:
                wake()

    def is_set(self) -> bool:
        """Tell whether it was set."""
        return self._is_set

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it is set, or so many seconds; tell whether it is set."""
        if _has_greenlets():
            self._wait_in_greenlet(seconds)
        elif not self._is_set:
            event = threading.Event()
            self._wake_by(event.set)
            event.wait(seconds)
            self._sleep_on(event.set)
        return self._is_set

    def _wait_in_greenlet(self, seconds: float | None) -> None:
        # the one thing of a hub that another thread may touch
        watcher = _hub().loop.async_()
        event = import_module("gevent.event").Event()
        watcher.start(event.set)
        wake = watcher.send
        try:
            if self._wake_by(wake):
                event.wait(seconds)
        finally:
            # before it is closed, so that nobody can still be sending
            self._sleep_on(wake)
            watcher.stop()
            watcher.close()

    def _wake_by(self, wake: Callable[[], object]) -> bool:
        with self._lock:
            if self._is_set:
                wake()
                return False
            self._wakers.append(wake)
            return True

    def _sleep_on(self, wake: Callable[[], object]) -> None:
        with self._lock:
            if wake in self._wakers:
                self._wakers.remove(wake)


class OSThread:
    """One such thread; the program may end without it."""

    def __init__(self, target: Callable[[], object], name: str) -> None:
        self._target = target
        self._name = name
        self._ended = Flag()
        self._thread: threading.Thread | None = None

    def __repr__(self) -> str:
        return f"<OSThread {self._name}: {'ended' if self._ended.is_set() else 'alive'}>"

    def start(self) -> None:
        """Start it; raises ``RuntimeError`` where the system has no room for another."""
        if not _has_greenlets():
            thread = threading.Thread(target=self._live, name=self._name, daemon=True)
            thread.start()
            self._thread = thread
            return
        # The first hub of a process imports its loop, and gevent's import lock wants a hub:
        # two threads that do this at the same time wait for each other for ever.
        _hub()
        _original("start_new_thread")(self._live_with_hub, ())

    def is_alive(self) -> bool:
        """Tell whether its work goes on, or has yet to begin."""
        return not self._ended.is_set()

    def join(self, seconds: float | None = None) -> None:
        """Wait until its work has ended, or so many seconds."""
        if self._thread is not None:
            self._thread.join(seconds)
        else:
            self._ended.wait(seconds)

    def _live(self) -> None:
        try:
            self._target()
        finally:
            self._ended.set()

    def _live_with_hub(self) -> None:
        threading.current_thread().name = self._name
        try:
            self._target()
        finally:
            _hub().destroy(destroy_loop=True)
            self._ended.set()


def native_lock() -> threading.Lock:
    """Return a lock for moments: where somebody waits for it, no greenlet of the thread runs."""
    lock: threading.Lock = _original("allocate_lock")() if _has_greenlets() else threading.Lock()
    return lock


def _has_greenlets() -> bool:
    monkey = sys.modules.get("gevent.monkey")
    return monkey is not None and bool(monkey.is_module_patched("threading"))


def _hub() -> Any:
    """Return this thread's hub, made on first use."""
    return import_module("gevent").get_hub()


def _original(name: str) -> Any:
    return import_module("gevent.monkey").get_original("_thread", name)
