"""The clocks of this process, made to be wrong: a store with one of its own is not to notice."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest

from anarchon.clock import SystemClock


def set_off(by: timedelta, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every clock of this process be off by so much."""
    wall, seconds, nanoseconds = SystemClock.wall, time.time, time.time_ns  # noqa: TID251
    shift = by.total_seconds()
    monkeypatch.setattr(SystemClock, "wall", lambda clock: wall(clock) + by)
    monkeypatch.setattr(time, "time", lambda: seconds() + shift)
    monkeypatch.setattr(time, "time_ns", lambda: nanoseconds() + int(shift * 1e9))
