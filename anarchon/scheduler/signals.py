"""Signals of this process, kept from the processes that are forked off it.

A forked child inherits asyncio's handlers, which do nothing without the loop, and before Python
3.12 also the pipe that wakes the loop: a handler that ends a worker of its own by SIGTERM would
end the scheduler, and the worker not.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_caught: set[signal.Signals] = set()


@contextmanager
def caught(callback: Callable[[signal.Signals], object]) -> Iterator[None]:
    """Call back on the running loop for SIGTERM and SIGINT, in this process only."""
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGTERM, signal.SIGINT)
    for number in numbers:
        loop.add_signal_handler(number, callback, number)
    _caught.update(numbers)
    try:
        yield
    finally:
        _caught.difference_update(numbers)
        for number in numbers:
            loop.remove_signal_handler(number)


def _let_go_in_child() -> None:
    if not _caught:
        return
    signal.set_wakeup_fd(-1)
    for number in _caught:
        usual = signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL
        signal.signal(number, usual)
    _caught.clear()


os.register_at_fork(after_in_child=_let_go_in_child)
