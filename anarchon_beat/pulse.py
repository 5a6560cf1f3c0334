"""The small file by which a running daemon shows that it lives, written and read.

Standard library only, and little of it: a probe reads it many times a minute.

A daemon writes ``<pid>.json`` into ``anarchon-beat-<uid>`` in the folder for temporary
files, or the one file it was told. Times in it are of the clock that nobody sets and that
all processes of a machine share, so that a step of the wall clock looks like neither life
nor death.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Iterator
from typing import TypedDict

VERSION = "anarchon.health/1"
#: A loop that has not woken for so many seconds does not live; it never sleeps over a minute.
LONGEST_SILENCE = 120.0


class Pulse(TypedDict):
    """What a daemon says of itself."""

    version: str
    pid: int
    born: str
    """Tells the process from a later one with its number; empty where the system does not say."""
    app: str
    namespace: str
    state: str
    """``starting``, ``running`` or ``stopping``."""
    ready: bool
    woken: float
    """When its loop looked at its timers last."""


def now() -> float:
    """Return seconds on the clock that all processes of this machine share."""
    # CLOCK_MONOTONIC stands still while a Linux machine is suspended
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def folder() -> str:
    """Return where the daemons of this user leave their files."""
    return os.path.join(os.environ.get("TMPDIR") or "/tmp", f"anarchon-beat-{os.getuid()}")


def make_folder() -> str:
    """Return the folder, made if there is none.

    Raises ``OSError`` for one that somebody else could write to.
    """
    path = folder()
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise PermissionError(f"{path} belongs to somebody else")
    return path


def path_of(pid: int) -> str:
    """Return where the daemon of this number leaves its file."""
    return os.path.join(folder(), f"{pid}.json")


def write(path: str, pulse: Pulse) -> None:
    """Replace the file in one step, so that nobody reads half of it; raises ``OSError``."""
    draft = f"{path}.{os.getpid()}"
    try:
        with open(draft, "w") as file:
            json.dump(pulse, file)
        os.replace(draft, path)
    except OSError:
        remove(draft)
        raise


def read(path: str) -> Pulse | None:
    """Return what the file says; ``None`` if there is none that can be read."""
    try:
        with open(path) as file:
            said = json.load(file)
    except (OSError, ValueError):
        return None
    if not isinstance(said, dict) or said.get("version") != VERSION:
        return None
    pulse: Pulse = said  # type: ignore[assignment]  # the version stands for its fields
    return pulse


def read_all() -> Iterator[Pulse]:
    """Return what the files of this user's daemons say, whether or not these still live."""
    try:
        names = sorted(os.listdir(folder()))
    except OSError:
        return
    for name in names:
        if name.endswith(".json") and (pulse := read(os.path.join(folder(), name))):
            yield pulse


def is_alive(pulse: Pulse) -> bool:
    """Tell whether the process that wrote this is still there, awake or not."""
    try:
        os.kill(pulse["pid"], 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return pulse["born"] == born(pulse["pid"])


def born(pid: int) -> str:
    """Return when a process began, as the system counts; empty where it does not say."""
    try:
        with open(f"/proc/{pid}/stat", errors="replace") as file:
            # the name of the process comes second, in brackets, and may hold anything
            return file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def remove(path: str) -> None:
    """Remove the file, if it is there."""
    try:
        os.unlink(path)
    except OSError:
        pass
