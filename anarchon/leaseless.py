"""What the options of a job come to on a store that only decides claims.

There nobody learns that a runner died, nor which runs of a job are busy, nor what was missed.
An option that asks for any of that is refused where it was written. What nobody wrote is
settled as the store can have it; the scheduler says so once, when it starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, cast

from anarchon.durations import duration
from anarchon.errors import ConfigurationError
from anarchon.run import Overlap
from anarchon.schedules import Polled, Schedule

#: What to use instead, in every error.
WITH_LEASES = "redis:// or valkey:// without mode=, postgresql://, sqlite:/// or libsql://"

#: All a store without leases can do.
SETTLED: Mapping[str, object] = {
    "overlap": Overlap.ALLOW,
    "catch_up": timedelta(0),
    "max_attempts": 1,
    "track": False,
    "run_at_start": False,
}
_OF_LEASES = ("lease", "heartbeat", "start_within", "on_store_error")


def refuse_options(options: Mapping[str, object], store: str) -> None:
    """Raise ``ConfigurationError`` for an option that needs a lease; ``store`` is its label."""
    for option, value in options.items():
        if value is None or _asks_for_nothing(option, value):
            continue
        raise ConfigurationError(
            f"it needs a store that keeps leases, and {store} decides claims only",
            option=option,
            fix=f"leave it out, or use a store with leases: {WITH_LEASES}",
        )


def _asks_for_nothing(option: str, value: object) -> bool:
    if option == "catch_up":
        return duration(cast(Any, value), option=option, allow_zero=True) == timedelta(0)
    if option in SETTLED:
        return value == SETTLED[option]
    return option not in _OF_LEASES


def refuse_schedule(schedule: Schedule, store: str) -> None:
    """Raise ``ConfigurationError`` for a schedule whose slots only a store with leases can tell."""
    if isinstance(schedule, Polled):
        raise ConfigurationError(
            f"its slots follow from each other, so they need a store that keeps leases, and {store}"
            " decides claims only",
            option="schedule",
            fix=f"use a store with leases: {WITH_LEASES}",
        )
