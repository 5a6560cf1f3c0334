"""`Every`: slots on a grid of equal steps, anchored at the epoch."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from anarchon.clock import EPOCH, MILLISECOND
from anarchon.durations import describe, duration
from anarchon.errors import ConfigurationError, InvalidSchedule
from anarchon.schedules.moments import (
    as_utc,
    refuse_finer_than_milliseconds,
    refuse_naive,
)
from anarchon.schedules.schedule import digest


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Every:
    """A slot each ``interval``, counted from ``anchor`` (default 1970-01-01T00:00Z).

    The grid knows no time zone: ``Every("1d")`` is midnight UTC, ``Every("7d")`` Thursdays.
    For local time use `Cron`. ``offset`` moves the grid, by less than one interval.
    """

    interval: timedelta
    phase: timedelta
    """How far after the epoch the grid's first point lies, less than one interval."""

    def __init__(
        self,
        interval: timedelta | float | str,
        *,
        anchor: datetime | None = None,
        offset: timedelta | float | str | None = None,
    ) -> None:
        step = _whole_milliseconds(interval, "interval")
        start = EPOCH if anchor is None else as_utc(refuse_naive(anchor, "anchor"))
        refuse_finer_than_milliseconds(start, "anchor")
        shift = timedelta(0)
        if offset is not None:
            shift = _whole_milliseconds(offset, "offset", allow_zero=True)
        if shift >= step:
            raise InvalidSchedule(
                f"{describe(shift)} is not less than the interval, {describe(step)}",
                option="offset",
                fix="write the part of one interval by which to move the grid",
            )
        object.__setattr__(self, "interval", step)
        object.__setattr__(self, "phase", (start - EPOCH + shift) % step)

    def next_after(self, moment: datetime, /) -> datetime | None:
        """Return the first slot after the moment."""
        steps = (as_utc(moment) - EPOCH - self.phase) // self.interval
        return self._slot(steps + 1)

    def latest_at(self, moment: datetime, /) -> datetime | None:
        """Return the newest slot at or before the moment."""
        return self._slot((as_utc(moment) - EPOCH - self.phase) // self.interval)

    def canonical(self) -> str:
        """Return interval and phase in milliseconds."""
        return f"every {self.interval // MILLISECOND}ms from {self.phase // MILLISECOND}ms"

    def fingerprint(self, now: datetime, /) -> str:
        """Return the hash of the canonical text: an interval needs nothing else."""
        return digest(self.canonical())

    def _slot(self, number: int) -> datetime | None:
        try:
            return EPOCH + self.phase + number * self.interval
        except OverflowError:
            return None

    def __str__(self) -> str:
        offset = f" +{describe(self.phase)}" if self.phase else ""
        return f"every {describe(self.interval)}{offset}"

    def __repr__(self) -> str:
        offset = f", offset={describe(self.phase)!r}" if self.phase else ""
        return f"Every({describe(self.interval)!r}{offset})"


def _whole_milliseconds(
    value: timedelta | float | str, option: str, *, allow_zero: bool = False
) -> timedelta:
    try:
        length = duration(value, option=option, allow_zero=allow_zero)
    except ConfigurationError as wrong:
        raise InvalidSchedule(wrong.problem, option=option, fix=wrong.fix) from None
    refuse_finer_than_milliseconds(length, option)
    return length
