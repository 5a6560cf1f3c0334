"""Time zones, cut at their offset changes into segments in which local time is UTC plus a constant.

Inside one segment wall time and UTC map one to one, so that nothing downstream needs
``fold``, ``dst()`` or arithmetic on aware local datetimes, each of which is a trap. Zones
come from IANA names only and are built here; moments are naive UTC, in whole seconds.
"""

# ruff: noqa: DTZ001 - naive UTC, so that wall time and UTC differ by plain arithmetic

from __future__ import annotations

import difflib
from bisect import bisect_right
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from anarchon.errors import InvalidSchedule
from anarchon.schedules.moments import as_utc
from anarchon.schedules.schedule import digest

# Two days from the ends of what datetime can say no offset can push a moment over them.
FIRST = datetime(1, 1, 3)
LAST = datetime(9999, 12, 29)

# In all IANA data no two changes lie closer than 167 hours: a look every three days meets
# each of them alone, and bisection finds its second.
_LOOK = timedelta(days=3)
_MARGIN = timedelta(days=7)
_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)

# Names the database holds that say nothing about a place: they follow the host.
_NOT_ZONES = ("localtime", "posixrules", "Factory")
_NOT_FOLDERS = ("posix/", "right/")
_FIX = 'write an IANA name such as "Europe/Athens" or "UTC"'


class Segment(NamedTuple):
    """A stretch of UTC, ``start`` to ``end``, in which local time is UTC + ``offset``."""

    start: datetime
    end: datetime
    offset: timedelta
    unrepeated: datetime
    """The wall time from which on readings are new ones; before it they are a second pass."""
    skipped: datetime | None
    """The first of the wall times skipped at the start, where a run for them is owed."""


def segment_at(zone: tzinfo, moment: datetime) -> Segment:
    """Return the segment that holds a moment.

    Where a segment is longer than its year it may end early, without a change of offset.
    """
    starts, segments = _segments_around(zone, moment.year)
    return segments[bisect_right(starts, moment) - 1]


@lru_cache(maxsize=4096)
def _segments_around(zone: tzinfo, year: int) -> tuple[tuple[datetime, ...], tuple[Segment, ...]]:
    # A week on either side of the year: repeats last a day at most, so a segment that
    # holds a moment of this year knows of the change it began with where that matters.
    start = FIRST if year <= 1 else datetime(year, 1, 1) - _MARGIN
    stop = LAST if year >= 9999 else datetime(year + 1, 1, 1) + _MARGIN
    changes = _changes(zone, start, stop)
    segments = []
    before = changes[0][1]
    for number, (begin, offset) in enumerate(changes):
        end = changes[number + 1][0] if number + 1 < len(changes) else stop
        # Zones that crossed the date line lost a whole day: it never was, nothing is owed.
        owed = timedelta(0) < offset - before < _DAY
        segments.append(
            Segment(
                begin,
                end,
                offset,
                unrepeated=begin + max(before, offset),
                skipped=begin + before if owed else None,
            )
        )
        before = offset
    return tuple(segment.start for segment in segments), tuple(segments)


def _changes(zone: tzinfo, start: datetime, stop: datetime) -> list[tuple[datetime, timedelta]]:
    """Return the offset at ``start``, then each change up to ``stop``: (moment, offset)."""
    offset = _offset(zone, start)
    found = [(start, offset)]
    at = start
    while at < stop:
        ahead = min(at + _LOOK, stop)
        new = _offset(zone, ahead)
        if new != offset:
            found.append((_jump_between(zone, at, ahead), new))
            offset = new
        at = ahead
    return found


def _jump_between(zone: tzinfo, before: datetime, after: datetime) -> datetime:
    """Return the one moment up to ``after`` at which the offset of ``before`` ceases."""
    offset = _offset(zone, before)
    low, high = 0, (after - before) // _SECOND
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(zone, before + middle * _SECOND) == offset:
            low = middle
        else:
            high = middle
    return before + high * _SECOND


def _offset(zone: tzinfo, moment: datetime) -> timedelta:
    offset = moment.replace(tzinfo=UTC).astimezone(zone).utcoffset()
    assert offset is not None, f"{zone} gives no offset"
    return offset


def instant_of(moment: datetime) -> datetime:
    """Return an aware moment in UTC; a local time that never was is the jump's instant."""
    instant = as_utc(moment)
    zone = moment.tzinfo
    if zone is None or not FIRST < instant.replace(tzinfo=None) < LAST:
        return instant
    if instant.astimezone(zone).replace(tzinfo=None) == moment.replace(tzinfo=None):
        return instant
    early = as_utc(moment.replace(fold=1)).replace(tzinfo=None, microsecond=0)
    late = as_utc(moment.replace(fold=0)).replace(tzinfo=None, microsecond=0)
    return _jump_between(zone, early, late).replace(tzinfo=UTC)


def offsets_digest(zone: tzinfo, now: datetime) -> str:
    """Return a short hash of the zone's offsets, of this decade and the next.

    The years do not move with each day, or a schedule would look like a new one each
    morning; they always reach ten years ahead. The files themselves cannot be compared:
    one edition is packaged in several forms.
    """
    return _offsets_digest(zone, as_utc(now).year // 10 * 10)


@lru_cache(maxsize=1024)
def _offsets_digest(zone: tzinfo, decade: int) -> str:
    start = max(FIRST, datetime(max(decade, 1), 1, 1))
    stop = LAST if decade + 20 > LAST.year else datetime(decade + 20, 1, 1)
    changes = _changes(zone, start, stop)
    return digest("\n".join(f"{at} {offset}" for at, offset in changes))


def zone_named(name: object, *, option: str = "timezone") -> tuple[str, tzinfo]:
    """Return the IANA name and the zone for a name, or for a zone object that has one.

    Raises ``InvalidSchedule`` for anything else, naming the nearest names there are.
    """
    key = _key_of(name)
    if key is None:
        raise InvalidSchedule(f"{name!r} is not an IANA time zone", option=option, fix=_FIX)
    if key == "UTC":
        # Needs no database, which a slim container or Windows may lack.
        return key, UTC
    zone = _zone(key)
    if zone is None:
        raise InvalidSchedule(
            f"{key[:64]!r} is not an IANA time zone", option=option, fix=_suggestion(key)
        )
    return key, zone


def _key_of(name: object) -> str | None:
    if isinstance(name, str):
        return name
    if isinstance(name, tzinfo):
        if name == UTC:
            return "UTC"
        # ZoneInfo has `key`, pytz `zone`. The object itself is not used: pytz and zoneinfo
        # answer differently around a change.
        key = getattr(name, "key", None) or getattr(name, "zone", None)
        return key if isinstance(key, str) else None
    return None


@lru_cache(maxsize=1024)
def _zone(key: str) -> ZoneInfo | None:
    if key in _NOT_ZONES or key.startswith(_NOT_FOLDERS) or not key.isascii():
        return None
    try:
        return ZoneInfo(key)
    except (KeyError, ValueError, OSError):
        return None


def _suggestion(key: str) -> str:
    known = available_timezones()
    if not known:
        return "this system has no time zone database: install the tzdata package"
    by_ending = {name.rpartition("/")[2].casefold(): name for name in sorted(known, reverse=True)}
    by_name = {name.casefold(): name for name in known}
    wanted = key[:64].casefold().replace(" ", "_")
    near = [by_name[match] for match in difflib.get_close_matches(wanted, by_name, n=3)]
    if wanted in by_ending:
        near.insert(0, by_ending[wanted])
    near = list(dict.fromkeys(name for name in near if name not in _NOT_ZONES))[:3]
    if not near:
        return _FIX
    return f"{_FIX}; near it: {', '.join(near)}"
