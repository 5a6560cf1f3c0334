"""Moments as schedules take and give them: aware, UTC, whole milliseconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from anarchon.clock import EPOCH, MILLISECOND
from anarchon.errors import InvalidSchedule

_FIRST = datetime.min.replace(tzinfo=UTC)
_LAST = datetime.max.replace(tzinfo=UTC)


def as_utc(moment: datetime) -> datetime:
    """Return the same instant in UTC; what UTC cannot say becomes the nearest it can."""
    if moment.tzinfo is UTC:
        return moment
    # `astimezone` would take a naive moment for this host's local time.
    if moment.tzinfo is None or moment.utcoffset() is None:
        raise ValueError(f"a moment needs a time zone, this one has none: {moment!r}")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        return _LAST if moment.year > 1 else _FIRST


def refuse_naive(moment: object, option: str) -> datetime:
    """Return the moment if it is an aware datetime, refuse it otherwise."""
    if not isinstance(moment, datetime):
        raise InvalidSchedule(
            f"{moment!r} is not a datetime",
            option=option,
            fix="write datetime(2027, 1, 1, 9, tzinfo=UTC)",
        )
    if moment.tzinfo is None or moment.utcoffset() is None:
        raise InvalidSchedule(
            f"{moment} has no time zone",
            option=option,
            fix='give it one: tzinfo=UTC, or tzinfo=ZoneInfo("Europe/Athens") for local time',
        )
    return moment


def refuse_finer_than_milliseconds(value: datetime | timedelta, option: str) -> None:
    """Refuse a moment or a length of time that is not whole milliseconds."""
    since = value - EPOCH if isinstance(value, datetime) else value
    if since % MILLISECOND:
        raise InvalidSchedule(
            f"{value} is not whole milliseconds",
            option=option,
            fix="slots are whole milliseconds; round it",
        )
