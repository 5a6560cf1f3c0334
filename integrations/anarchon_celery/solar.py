"""Celery's solar events as slots: the sun crosses a horizon, or the meridian.

Celery asks for the event that follows the last run, and the answer differs by fractions of
a second with the moment asked from. Here every search starts where a local solar day does,
and what it finds is rounded to the second, so that all instances find the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import chain
from typing import Any

from anarchon import MissingExtra
from anarchon.clock import EPOCH
from anarchon.schedules.moments import as_utc
from anarchon.schedules.schedule import digest

_DAY = timedelta(days=1)
#: Two events of one kind are never so close; a search that starts at an event may find it again.
_ON = timedelta(hours=1)
#: At the poles a sunrise comes once a year. What did not come in two years never does.
_LONGEST_SEARCH = 2 * 366


@dataclass(frozen=True, slots=True)
class Solar:
    """The slots of a ``solar`` schedule: one an event, and none on days that have none."""

    event: str
    latitude: float
    longitude: float
    horizon: float
    """How high the sun stands at the event, in radians."""
    method: str
    of_center: bool

    @classmethod
    def of(cls, schedule: Any) -> Solar:
        """Return the slots of one of Celery's own objects."""
        _ephem()
        return cls(
            schedule.event,
            float(schedule.lat),
            float(schedule.lon),
            float(schedule.cal.horizon),
            schedule.method,
            bool(schedule.use_center),
        )

    def next_after(self, moment: datetime, /) -> datetime | None:
        """Return the first slot after the moment."""
        moment = as_utc(moment)
        today = self._day_of(moment)
        # an event right at the end of a day may be rounded into the next one
        days = range(today - 1, today + _LONGEST_SEARCH)
        slots = chain.from_iterable(_events(self, day) for day in days)
        return next((slot for slot in slots if slot > moment), None)

    def latest_at(self, moment: datetime, /) -> datetime | None:
        """Return the newest slot at or before the moment."""
        moment = as_utc(moment)
        today = self._day_of(moment)
        days = range(today, today - _LONGEST_SEARCH, -1)
        slots = chain.from_iterable(reversed(_events(self, day)) for day in days)
        return next((slot for slot in slots if slot <= moment), None)

    def canonical(self) -> str:
        """Return the event, the place, the sun's height, and what computes it."""
        height = f"{'center' if self.of_center else 'edge'} at {self.horizon!r}"
        return f"solar {self.event} {self.latitude!r} {self.longitude!r} {height} {_dialect()}"

    def fingerprint(self, now: datetime, /) -> str:
        """Return the hash of the canonical text: the sun needs no time zone."""
        return digest(self.canonical())

    def start_of(self, day: int) -> datetime | None:
        """Return when a local solar day begins, counted from that of 1970-01-01."""
        try:
            return EPOCH + day * _DAY - self._ahead
        except OverflowError:
            return None

    def _day_of(self, moment: datetime) -> int:
        return (moment - EPOCH + self._ahead) // _DAY

    @property
    def _ahead(self) -> timedelta:
        return timedelta(hours=self.longitude / 15)

    def __str__(self) -> str:
        return f"{self.event} at {self.latitude:g}, {self.longitude:g}"


# All that a year of one place needs, for several places: a search costs 100 microseconds.
@lru_cache(maxsize=8192)
def _events(solar: Solar, day: int) -> tuple[datetime, ...]:
    """Return the events of a local solar day: none, one, or two of which the first came early."""
    start, end = solar.start_of(day), solar.start_of(day + 1)
    if start is None or end is None:
        return ()
    ephem = _ephem()
    observer = ephem.Observer()
    observer.lat, observer.lon = str(solar.latitude), str(solar.longitude)
    observer.elev = observer.pressure = 0
    observer.horizon = solar.horizon
    found: list[datetime] = []
    while start < end:
        try:
            event = _moment(_search(observer, solar, start))
            if event >= end:
                break
            if event >= start:
                found.append(_to_the_second(event))
        except ephem.CircumpolarError:
            # as Celery does: the sun may still come up, or go down, after its lowest point
            event = _moment(observer.next_antitransit(ephem.Sun(), start=ephem.Date(start)))
        start = max(start, event) + _ON
    return tuple(found)


def _search(observer: Any, solar: Solar, start: datetime) -> Any:
    ephem = _ephem()
    options = {"use_center": True} if solar.of_center else {}
    return getattr(observer, solar.method)(ephem.Sun(), start=ephem.Date(start), **options)


def _moment(date: Any) -> datetime:
    return date.datetime().replace(tzinfo=UTC)  # type: ignore[no-any-return]


def _to_the_second(moment: datetime) -> datetime:
    return (moment + timedelta(milliseconds=500)).replace(microsecond=0)


def _ephem() -> Any:
    try:
        import ephem
    except ImportError:
        raise MissingExtra(
            "solar events are computed by ephem, which is not installed",
            option="schedule",
            fix="type: pip install 'celery[solar]'",
        ) from None
    return ephem


@lru_cache(maxsize=1)
def _dialect() -> str:
    """Name what computes the events: another major version may do so otherwise."""
    return f"ephem-{_ephem().__version__.partition('.')[0]}"
