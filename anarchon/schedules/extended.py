"""The extended dialect of days (``L``, ``15W``, ``5#2``, ``L5``), expanded by croniter.

croniter sees one such term at a time, on naive time: its own ways with time zones and with
combined fields are not ours. The answer only depends on a month's shape (its length and
first weekday), so 28 sample months say it all and no slot ever waits for croniter.
"""

# ruff: noqa: DTZ001 - croniter may never see a zone

from __future__ import annotations

from calendar import monthrange
from datetime import datetime, timedelta
from functools import lru_cache
from importlib.metadata import version

MonthShape = tuple[int, int]
"""A month's first weekday (Monday is 0) and its length in days."""

SHAPES: tuple[MonthShape, ...] = tuple(
    (first, days) for first in range(7) for days in range(28, 32)
)


def days_of(term: str, *, weekday: bool) -> dict[MonthShape, frozenset[int]]:
    """Return the days of the month a term stands for, for each shape a month can have."""
    return _days_of(term, weekday)


@lru_cache(maxsize=256)
def _days_of(term: str, weekday: bool) -> dict[MonthShape, frozenset[int]]:
    expression = f"0 0 * * {term}" if weekday else f"0 0 {term} * *"
    return {shape: _matches(expression, *_sample(shape)) for shape in SHAPES}


def _matches(expression: str, year: int, month: int) -> frozenset[int]:
    # Costs 30 ms, which only those who use the dialect should pay.
    from croniter import croniter

    before = datetime(year, month, 1) - timedelta(seconds=1)
    matches = croniter(expression, before, ret_type=datetime)
    days = set()
    while (match := matches.get_next()).month == month and match.year == year:
        days.add(match.day)
    return frozenset(days)


@lru_cache(maxsize=1)
def _samples() -> dict[MonthShape, tuple[int, int]]:
    # The calendar repeats after 28 years, leap days included.
    return {
        monthrange(year, month): (year, month)
        for year in range(2000, 2028)
        for month in range(1, 13)
    }


def _sample(shape: MonthShape) -> tuple[int, int]:
    return _samples()[shape]


@lru_cache(maxsize=1)
def dialect() -> str:
    """Name what reads the dialect: another major version of it may read it otherwise."""
    return f"croniter-{version('croniter').partition('.')[0]}"
