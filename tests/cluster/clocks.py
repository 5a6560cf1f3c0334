"""A wall clock that an instance is made to see, wrong by any amount and set while it runs.

By libfaketime, put before the C library of the instance's process. Only the wall clock lies:
how much time goes by stays true, as on a machine whose clock somebody sets.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.servers import fetch

_LIBRARY = "libfaketimeMT.so.1"


class WallClock:
    """The wall clock of one place; ``error`` is by how many seconds it is wrong."""

    def __init__(self, library: Path, file: Path, error: int = 0) -> None:
        self._library = library
        self._file = file
        self.error = error
        self.set(error)

    def set(self, error: int) -> None:
        """Make it wrong by so many seconds from now on."""
        self.error = error
        # read anew at every look, so it is never half written
        draft = self._file.with_suffix(".draft")
        draft.write_text(f"{error:+d}s\n")
        draft.rename(self._file)

    def environment(self) -> Mapping[str, str]:
        """Return the variables of a process that is to see it."""
        return {
            "LD_PRELOAD": str(self._library),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    @staticmethod
    def clean_up_after(pid: int) -> None:
        """Remove what the library shares with children: who came by way of a leash leaves it."""
        for name in (f"faketime_shm_{pid}", f"sem.faketime_sem_{pid}"):
            Path("/dev/shm", name).unlink(missing_ok=True)


def find_library() -> Path:
    """Return the library that makes clocks lie; raises `Unavailable`."""
    return next(fetch("libfaketime").glob(f"usr/lib/**/{_LIBRARY}"))
