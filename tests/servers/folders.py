"""Temporary folders for servers: reachable by another user, and swept when their owner died."""

import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

_PREFIX = "anarchon-servers-"
_LOCK = "alive"
_SWEEP_AFTER = 60.0
#: Memory first, where there is plenty of it: on a disk that others keep busy a write may take
#: seconds, and sqld ends a transaction that takes five.
_MEMORY, _PLENTY = "/dev/shm", 4 << 30


class TemporaryFolder:
    """A folder of this process; a later process removes it should this one not come to it."""

    def __init__(self) -> None:
        parent = next(_reachable_parents(), Path(tempfile.gettempdir()))
        _sweep(parent)
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        self.path.chmod(0o755)
        # Held as long as this process lives, however it ends.
        self._lock = os.open(self.path / _LOCK, os.O_CREAT | os.O_RDWR)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def remove(self) -> None:
        """Remove the folder and all in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def is_reachable_by_others(path: Path) -> bool:
    """Tell whether any user may enter this folder and all above it."""
    return all(
        os.stat(folder).st_mode & stat.S_IXOTH
        for folder in (path.resolve(), *path.resolve().parents)
    )


def link_or_copy(source: Path, target: Path) -> None:
    """Make the files below ``source`` appear below ``target``, without a copy where that goes.

    A symbolic link to the folder would not do: a program that looks for its own files follows it.
    """
    shutil.copytree(source, target, symlinks=True, copy_function=_link_or_copy_file)


def _link_or_copy_file(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target)


def _reachable_parents() -> Iterator[Path]:
    for candidate in (_MEMORY, tempfile.gettempdir(), "/tmp", "/var/tmp"):
        path = Path(candidate)
        if not (path.is_dir() and os.access(path, os.W_OK) and is_reachable_by_others(path)):
            continue
        if candidate != _MEMORY or shutil.disk_usage(path).free >= _PLENTY:
            yield path


def _sweep(parent: Path) -> None:
    """Remove what processes left that were killed before they could."""
    for folder in parent.glob(f"{_PREFIX}*"):
        try:
            # A young one may be between its making and its lock.
            if time.time() - folder.stat().st_mtime < _SWEEP_AFTER:
                continue
            lock = os.open(folder / _LOCK, os.O_RDWR)
        except OSError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            pass
        finally:
            os.close(lock)
