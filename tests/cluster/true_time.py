"""The time that all evidence is told in, whatever clock an instance is made to see.

Everybody notes seconds since boot, which no fault of a clock moves; here they become moments.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta


def boot() -> float:
    """Return seconds since boot: the same for every process of this machine."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


_BOOTED = datetime.now(UTC) - timedelta(seconds=boot())


def moment(seconds: float) -> datetime:
    """Return the moment of so many seconds since boot."""
    return _BOOTED + timedelta(seconds=seconds)


def now() -> datetime:
    """Return the true time."""
    return moment(boot())
