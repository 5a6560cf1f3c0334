"""The calendar: fields of a cron as a set of naive wall times, searched both ways.

It knows no time zone. Wall times are naive and in whole seconds.
"""

# ruff: noqa: DTZ001 - wall times are naive by intent

from __future__ import annotations

from bisect import bisect_left, bisect_right
from calendar import monthrange
from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache

from anarchon.schedules.extended import SHAPES, MonthShape, days_of
from anarchon.schedules.fields import HOUR, DayRule, Fields

_FIRST_YEAR, _LAST_YEAR = 1, 9999

_shape = lru_cache(maxsize=4096)(monthrange)


@lru_cache(maxsize=1024)
def calendar_of(fields: Fields) -> Calendar:
    """Return the calendar of these fields; equal ones share it."""
    return Calendar(fields)


class Calendar:
    """The wall times at which all fields match."""

    __slots__ = ("_days", "_minutes", "_months", "_seconds", "every_hour")

    def __init__(self, fields: Fields) -> None:
        self._seconds = fields.seconds
        self._minutes = _minutes_of_day(fields.hours, fields.minutes)
        self._months = fields.months
        self._days = _days_by_shape(fields.days)
        self.every_hour = fields.hours == HOUR.full

    def happens(self) -> bool:
        """Say whether there is any such wall time at all."""
        # In the 400 years after which the calendar repeats, every month of each of its
        # lengths begins on each weekday.
        return any(
            self._days[first, length]
            for month in self._months
            for length in _lengths(month)
            for first in range(7)
        )

    def at_or_after(self, wall: datetime) -> datetime | None:
        """Return the first match that is not before the wall time."""
        year, month, day = wall.year, wall.month, wall.day
        days = self._days_in(year, month)
        index = bisect_left(days, day)
        if index < len(days) and days[index] == day:
            time = self._time_from(wall)
            if time is not None:
                return datetime(year, month, day, *time)
            index += 1
        if index < len(days):
            return datetime(year, month, days[index], *self._first_time())
        for other_year, other in self._months_after(year, month):
            days = self._days_in(other_year, other)
            if days:
                return datetime(other_year, other, days[0], *self._first_time())
        return None

    def at_or_before(self, wall: datetime) -> datetime | None:
        """Return the last match that is not after the wall time."""
        year, month, day = wall.year, wall.month, wall.day
        days = self._days_in(year, month)
        index = bisect_right(days, day) - 1
        if index >= 0 and days[index] == day:
            time = self._time_until(wall)
            if time is not None:
                return datetime(year, month, day, *time)
            index -= 1
        if index >= 0:
            return datetime(year, month, days[index], *self._last_time())
        for other_year, other in self._months_before(year, month):
            days = self._days_in(other_year, other)
            if days:
                return datetime(other_year, other, days[-1], *self._last_time())
        return None

    def _days_in(self, year: int, month: int) -> tuple[int, ...]:
        return self._days[_shape(year, month)] if month in self._months else ()

    def _months_after(self, year: int, month: int) -> Iterator[tuple[int, int]]:
        months = self._months
        for later in months[bisect_right(months, month) :]:
            yield year, later
        for later_year in range(year + 1, _LAST_YEAR + 1):
            for month in months:
                yield later_year, month

    def _months_before(self, year: int, month: int) -> Iterator[tuple[int, int]]:
        months = self._months
        for earlier in reversed(months[: bisect_left(months, month)]):
            yield year, earlier
        for earlier_year in range(year - 1, _FIRST_YEAR - 1, -1):
            for month in reversed(months):
                yield earlier_year, month

    def _time_from(self, wall: datetime) -> tuple[int, int, int] | None:
        minutes, seconds = self._minutes, self._seconds
        minute = wall.hour * 60 + wall.minute
        index = bisect_left(minutes, minute)
        if index < len(minutes) and minutes[index] == minute:
            second = bisect_left(seconds, wall.second)
            if second < len(seconds):
                return wall.hour, wall.minute, seconds[second]
            index += 1
        if index == len(minutes):
            return None
        return *divmod(minutes[index], 60), seconds[0]

    def _time_until(self, wall: datetime) -> tuple[int, int, int] | None:
        minutes, seconds = self._minutes, self._seconds
        minute = wall.hour * 60 + wall.minute
        index = bisect_right(minutes, minute) - 1
        if index >= 0 and minutes[index] == minute:
            second = bisect_right(seconds, wall.second) - 1
            if second >= 0:
                return wall.hour, wall.minute, seconds[second]
            index -= 1
        if index < 0:
            return None
        return *divmod(minutes[index], 60), seconds[-1]

    def _first_time(self) -> tuple[int, int, int]:
        return *divmod(self._minutes[0], 60), self._seconds[0]

    def _last_time(self) -> tuple[int, int, int]:
        return *divmod(self._minutes[-1], 60), self._seconds[-1]


@lru_cache(maxsize=1024)
def _minutes_of_day(hours: tuple[int, ...], minutes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(hour * 60 + minute for hour in hours for minute in minutes)


@lru_cache(maxsize=1024)
def _days_by_shape(rule: DayRule) -> dict[MonthShape, tuple[int, ...]]:
    by_number = [days_of(term, weekday=False) for term in rule.special_days]
    by_weekday = [days_of(term, weekday=True) for term in rule.special_weekdays]
    table = {}
    for shape in SHAPES:
        first, length = shape
        month = range(1, length + 1)
        numbered = set(rule.days).union(*(days[shape] for days in by_number))
        # Cron's week begins on Sunday, Python's on Monday.
        named = {day for day in month if (first + day) % 7 in rule.weekdays}
        named = named.union(*(days[shape] for days in by_weekday))
        matching = numbered | named if rule.either else numbered & named
        table[shape] = tuple(day for day in month if day in matching)
    return table


def _lengths(month: int) -> tuple[int, ...]:
    return (28, 29) if month == 2 else (30,) if month in (4, 6, 9, 11) else (31,)
