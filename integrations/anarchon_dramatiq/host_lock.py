"""One engine a machine or container: a lock that the kernel takes back from whoever dies.

The claims alone see to it that each slot runs once. The lock only spares the store the
questions of a worker's other processes. By ``lockf`` it belongs to the process, so that a
program that an actor has started does not hold it after the worker was killed.

A process that stands still keeps its lock, as one does whose actor keeps the interpreter to
itself. So the holder touches the file, and whoever waits sees when it does so no more.
"""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile

try:
    import fcntl
except ImportError:  # pragma: no cover - where there is no such lock, everybody has it
    fcntl = None  # type: ignore[assignment]

from anarchon.clock import Clock, SystemClock

log = logging.getLogger("anarchon.dramatiq")

#: For so many seconds the holder of a lock may show no life: longer than a busy machine takes.
_SILENT = 5.0


class HostLock:
    """A lock of this machine that goes by a text and a number; those of two users never meet."""

    def __init__(self, text: str, number: int = 0, clock: Clock | None = None) -> None:
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        folder = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
        user = os.getuid() if hasattr(os, "getuid") else 0
        spare = f"-{number}" if number else ""
        self.path = os.path.join(folder, f"anarchon-{user}-{digest}{spare}.lock")
        self._clock = clock or SystemClock()
        self._file: int | None = None
        self._is_broken = False
        self._touched = 0
        self._seen = 0.0

    def __repr__(self) -> str:
        return f"<HostLock {self.path}: {'held' if self._file is not None else 'not held'}>"

    def take(self) -> bool:
        """Tell whether we have it now; never waits.

        Where files cannot be locked everybody has it.
        """
        if self._file is not None or self._is_broken or fcntl is None:
            return True
        try:
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            return self._give_up(error)
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return False
        except OSError as error:
            os.close(file)
            return self._give_up(error)
        self._file = file
        return True

    def touch(self) -> None:
        """Show that its holder is alive."""
        if self._file is not None:
            os.utime(self._file)

    def is_silent(self) -> bool:
        """Tell whether somebody has it who shows no life; ask again and again."""
        try:
            touched = os.stat(self.path).st_mtime_ns
        except OSError:
            return False
        now = self._clock.monotonic()
        if touched != self._touched:
            self._touched, self._seen = touched, now
        return now - self._seen > _SILENT

    def release(self) -> None:
        """Let the next one have it."""
        if self._file is not None:
            # the file stays: whoever waits for it has its name
            os.close(self._file)
            self._file = None

    def _give_up(self, error: OSError) -> bool:
        log.warning(
            "%s cannot be locked (%s): each process of this worker asks the store by itself",
            self.path,
            error,
        )
        self._is_broken = True
        return True
