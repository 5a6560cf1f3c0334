"""The pidfile: one daemon at a time, and its number for whoever has to signal it."""

from __future__ import annotations

import fcntl
import logging
import os
from types import TracebackType
from typing import Self

from anarchon_beat.mistakes import PIDFILE_IN_USE, Mistake

log = logging.getLogger("anarchon.beat")


class Pidfile:
    """A file that is locked while its writer lives, and gone when it has ended well.

    The lock tells a daemon of ours that lives from one that was killed, whatever process has
    its number now. Other programs do not lock: a living number in their file is believed.
    """

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self._file = -1

    def acquire(self) -> None:
        """Lock the file and write our number into it; raises ``Mistake`` if it is in use."""
        try:
            self._file = self._locked()
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            raise Mistake(f"pidfile {self.path}: {error.strerror}") from error

    def release(self) -> None:
        """Remove the file and let the lock go; harmless when it is not ours."""
        if self._file < 0:
            return
        # in this order: once the lock is gone, the file may be another daemon's
        if self._is_in_place(self._file):
            os.unlink(self.path)
        os.close(self._file)
        self._file = -1

    def _locked(self) -> int:
        while True:
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            pid = _pid_in(file)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(file)
                raise self._in_use(pid) from None
            if not self._is_in_place(file):
                # it was removed by its last owner between our two steps
                os.close(file)
                continue
            if pid is not None and _is_alive(pid):
                os.close(file)
                raise self._in_use(pid)
            if pid is not None:
                log.warning("stale pidfile removed: %s (pid %s has ended)", self.path, pid)
            return file

    def _in_use(self, pid: int | None) -> Mistake:
        return Mistake(f"pidfile {self.path} is in use by pid {pid or 'unknown'}", PIDFILE_IN_USE)

    def _is_in_place(self, file: int) -> bool:
        try:
            return os.path.samestat(os.fstat(file), os.stat(self.path))
        except FileNotFoundError:
            return False

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


def _pid_in(file: int) -> int | None:
    try:
        return int(os.pread(file, 20, 0))
    except ValueError:
        return None


def _is_alive(pid: int) -> bool:
    # in a container every start has the number 1
    if pid == os.getpid() or pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError, OverflowError):
        # as celery: what we may not signal has got the number of a daemon of ours that died
        return False
    return True
