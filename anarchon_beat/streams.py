"""The standard streams, as odd as they may be: closed, full, or unread by now.

Imports next to nothing: a liveness probe pays for every import.
"""

from __future__ import annotations

import os
import sys
from typing import TextIO


class OutputLost(Exception):
    """Standard output took not all that was written; ``reason`` says why."""

    def __init__(self, reason: OSError) -> None:
        super().__init__(reason)
        self.reason = reason


def prepare() -> None:
    """Open the streams that are closed, and let standard output take any character."""
    # what is opened next would be taken for a stream that is closed
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
    sys.stdout = sys.stdout or _opened(1)
    sys.stderr = sys.stderr or _opened(2)
    _take_any_character(sys.stdout)


def _opened(number: int) -> TextIO:
    return open(number, "w", closefd=False)


def _take_any_character(stream: TextIO) -> None:
    # the name of a job may be written in letters that this stream has not
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")


def say(text: str) -> None:
    """Write to standard output now; raises ``OutputLost``."""
    try:
        print(text, flush=True)
    except OSError as error:
        raise OutputLost(error) from None


def flush() -> None:
    """Write what others left in standard output, or drop it."""
    try:
        sys.stdout.flush()
    except OSError:
        give_up()


def give_up() -> None:
    """Have what goes to standard output, and what waits in it, go nowhere from now on."""
    # else Python fails on what waits once more when it ends, and changes the exit code
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
    sys.stdout.flush()
