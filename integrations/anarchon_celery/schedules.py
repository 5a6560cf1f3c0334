"""What an entry may say of when it is due, translated into slots of ours.

Celery's own objects, numbers, texts of ours and schedules of ours name slots that every
instance computes alike. What decides for itself when it is due is asked.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo
from decimal import Decimal
from typing import Any

from celery import Celery
from celery import schedules as stock

from anarchon import At, Cron, CronSets, Every, InvalidSchedule, Polled, Schedule
from anarchon.durations import describe
from anarchon_celery.custom import CustomSchedule
from anarchon_celery.solar import Solar

Warn = Callable[[str], None]

_MICROSECOND = timedelta(microseconds=1)
_MINUTE, _HOUR, _DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
_FIX = 'write a number of seconds, a timedelta, crontab(...), or text such as "0 8 * * *"'
#: What decides when a stock schedule is due; the days and times of a class that overrides
#: it cannot be read from its fields, and so it is asked.
_DECIDE = ("is_due", "remaining_estimate", "remaining_delta", "_delta_to_next", "_next_event")
_OURS = (At, Cron, CronSets, Every, Polled)
#: It overrides ``is_due`` only to look at the same fields in a zone of its own.
_ZONED_CRONTAB = "django_celery_beat.tzcrontab.TzAwareCrontab"


def slots_of(
    app: Celery,
    value: object,
    *,
    relative: bool,
    warn: Warn,
    timezone: str | tzinfo | None = None,
) -> Schedule:
    """Return the schedule that an entry's ``schedule`` stands for.

    ``timezone`` is the entry's own. ``warn`` is told what has no meaning here. Raises
    ``InvalidSchedule``.
    """
    found = _read(app, value, relative, warn, timezone)
    if timezone is not None and not isinstance(found, Cron | CronSets):
        raise InvalidSchedule(
            f"{found} has no time zone",
            option="timezone",
            fix="leave it out: it is for a crontab, or the text of a cron",
        )
    return found


def _read(
    app: Celery, value: object, relative: bool, warn: Warn, timezone: str | tzinfo | None
) -> Schedule:
    if isinstance(value, stock.crontab) and not _decides(value, stock.crontab):
        return _crontab(app, value, warn, timezone)
    if isinstance(value, stock.schedule) and not _decides(value, stock.schedule):
        return _stock_interval(app, value, relative, warn)
    if isinstance(value, stock.solar) and not _decides(value, stock.solar):
        _warn_of_its_clock(value, stock.solar, warn)
        return Solar.of(value)
    if isinstance(value, timedelta):
        return _interval(app, value, relative, warn)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _interval(app, _seconds(value), relative, warn)
    if isinstance(value, str):
        return _text(app, value, timezone)
    if isinstance(value, _OURS):
        return value
    return _asked(app, value)


def _text(app: Celery, text: str, timezone: str | tzinfo | None) -> Schedule:
    """Read text of ours: a duration is how long an interval is, and all else is a cron."""
    try:
        return Every(text)
    except InvalidSchedule as wrong:
        if " " not in text.strip() and not text.startswith("@"):
            raise _refused(wrong.problem, f'{wrong.fix}; or a cron: "0 8 * * *"') from None
    zone = timezone or _zone_of(app, None)
    try:
        return Cron(text, zone)
    except InvalidSchedule as wrong:
        raise _refused(wrong.problem, wrong.fix or _FIX) from None


def _asked(app: Celery, value: object) -> CustomSchedule:
    is_due = getattr(value, "is_due", None)
    if isinstance(value, type) or not callable(is_due):
        raise _unsupported(value)
    if getattr(type(value), "is_due", None) is stock.BaseSchedule.is_due:
        raise _refused(
            f"{type(value).__qualname__} does not say when it is due",
            "give it is_due(last_run_at), which returns (is_due, seconds)",
        )
    if isinstance(value, stock.crontab):
        _zone_of(app, value)  # that of this machine is no better for a crontab that is asked
    return CustomSchedule(app, value)


def _stock_interval(app: Celery, schedule: Any, relative: bool, warn: Warn) -> Every:
    _warn_of_its_clock(schedule, stock.schedule, warn)
    return _interval(app, schedule.run_every, relative or schedule.relative, warn)


def _interval(app: Celery, run_every: object, relative: bool, warn: Warn) -> Every:
    if not isinstance(run_every, timedelta):
        raise _refused(f"an interval of {run_every!r}", _FIX)
    if run_every <= timedelta(0):
        raise _refused(
            f"an interval of {describe(run_every)}, which is always due", "write more than zero"
        )
    try:
        # the nearest whole millisecond, as all slots are
        interval = timedelta(milliseconds=(run_every // _MICROSECOND + 500) // 1000)
    except OverflowError:
        raise _refused(
            f"an interval of {describe(run_every)} is too long", "write a shorter one"
        ) from None
    if not interval:
        raise _refused(f"an interval of {describe(run_every)}", "write one millisecond or more")
    if interval != run_every:
        warn(
            f"an interval of {describe(run_every)} is rounded to {describe(interval)}:"
            " slots are whole milliseconds"
        )
    if relative:
        _warn_of_rounding(app, interval, warn)
    return Every(interval)


def _warn_of_rounding(app: Celery, interval: timedelta, warn: Warn) -> None:
    """Say where ``relative`` does not mean in Celery what the grid does anyway."""
    unit = next((unit for unit in (_DAY, _HOUR, _MINUTE) if interval >= unit), None)
    if unit is None:
        return
    if interval % unit:
        warn(
            f"relative=True is ignored: slots come each {describe(interval)}, while Celery rounds"
            f" down, to each {describe(interval - interval % unit)}"
        )
    elif unit is _DAY and not _is_utc(app):
        warn(
            "relative=True is ignored, and slots lie on whole days of UTC, not of"
            f" {app.conf.timezone}: use crontab(...) for local midnight"
        )
    elif unit is _HOUR and _is_off_the_hour(app):
        warn(
            "relative=True is ignored, and slots lie on whole hours of UTC, not of"
            f" {app.conf.timezone}: use crontab(...) for local hours"
        )


def _crontab(app: Celery, crontab: Any, warn: Warn, timezone: str | tzinfo | None) -> CronSets:
    _warn_of_its_clock(crontab, stock.crontab, warn)
    return CronSets(
        crontab.minute,
        crontab.hour,
        crontab.day_of_month,
        crontab.month_of_year,
        crontab.day_of_week,
        timezone or _zone_of(app, crontab),
        day="and",
    )


def _zone_of(app: Celery, schedule: Any) -> str | tzinfo:
    """Return the zone that ``schedule.tz`` is, without writing it to the user's object.

    Without a schedule: that of the app.
    """
    own: Any = None
    if schedule is not None:
        own = vars(schedule).get("tz")
        inherited = inspect.getattr_static(stock.BaseSchedule, "tz")
        if own is None and inspect.getattr_static(type(schedule), "tz") is not inherited:
            own = schedule.tz
    zone: Any = app.conf.timezone
    for chosen in (own if zone or own is not app.timezone else None, zone):
        if chosen:
            return chosen  # type: ignore[no-any-return]  # CronSets refuses what is no zone
    if app.conf.enable_utc:
        return "UTC"
    raise _refused(
        "a crontab in the time zone of this machine (enable_utc is off and no timezone is set),"
        " on which instances may differ",
        'set timezone to an IANA name such as "Europe/Athens"',
    )


def _is_utc(app: Celery) -> bool:
    zone: Any = app.conf.timezone
    return str(zone or "UTC").upper() in ("UTC", "ETC/UTC")


def _is_off_the_hour(app: Celery) -> bool:
    zone: Any = app.timezone
    offsets = (zone.utcoffset(datetime(2026, month, 1)) for month in (1, 7))  # noqa: DTZ001
    return any(offset % _HOUR for offset in offsets)


def _decides(schedule: object, base: type) -> bool:
    """Tell whether a schedule's class has its own way to say when it is due."""
    cls = type(schedule)
    if _is_zoned(cls):
        return False
    return any(getattr(cls, name, None) is not getattr(base, name, None) for name in _DECIDE)


def _warn_of_its_clock(schedule: Any, base: type, warn: Warn) -> None:
    cls = type(schedule)
    own_clock = getattr(cls, "now", None) is not getattr(base, "now", None)
    if (schedule.nowfun is not None or own_clock) and not _is_zoned(cls):
        warn("the schedule's own nowfun is ignored: the store's clock decides what is due")


def _is_zoned(cls: type) -> bool:
    return f"{cls.__module__}.{cls.__qualname__}" == _ZONED_CRONTAB


def _seconds(value: float) -> timedelta:
    try:
        if math.isfinite(value):
            return timedelta(seconds=value)
    except OverflowError:
        pass
    # a whole number may have more digits than can be shown
    shown = "so many" if isinstance(value, int) else repr(value)
    raise _refused(f"an interval of {shown} seconds", "write a number of seconds")


def _unsupported(value: object) -> InvalidSchedule:
    if value is None:
        return _refused("there is no schedule", _FIX)
    if isinstance(value, Decimal):
        return _refused(f"{value!r} is a Decimal", f"write float({value})")
    if isinstance(value, bool):
        return _refused(f"{value!r} is not a number of seconds", _FIX)
    name = value.__qualname__ if isinstance(value, type) else type(value).__qualname__
    what = f"the class {name}" if isinstance(value, type) else name
    return _refused(f"{what} is no schedule", _FIX)


def _refused(problem: str, fix: str) -> InvalidSchedule:
    return InvalidSchedule(problem, option="schedule", fix=fix)
