"""A process that leads a group of its own, killed or made to stand still with all of the group."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill it with all of its children, and wait for its end."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


@contextmanager
def frozen_group(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Let it and its children stand still for a while."""
    os.killpg(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGCONT)
