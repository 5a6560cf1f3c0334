"""Celery's schedule objects, translated into slots that every instance computes alike."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from datetime import timedelta, tzinfo
from decimal import Decimal
from typing import Any

from celery import Celery
from celery import schedules as stock

from anarchon import CronSets, Every, InvalidSchedule, Schedule
from anarchon.durations import describe

Warn = Callable[[str], None]

_MICROSECOND = timedelta(microseconds=1)
_DAY = timedelta(days=1)
_FIX = "write a number of seconds, a timedelta, or crontab(...)"
#: What decides when a stock schedule is due; the days and times of a class that overrides
#: it cannot be read from its fields.
_DECIDE = ("is_due", "remaining_estimate", "remaining_delta", "_delta_to_next")
#: It overrides ``is_due`` only to look at the same fields in a zone of its own.
_ZONED_CRONTAB = "django_celery_beat.tzcrontab.TzAwareCrontab"


def slots_of(app: Celery, value: object, *, relative: bool, warn: Warn) -> Schedule:
    """Return the schedule that an entry's ``schedule`` stands for.

    ``warn`` is told what of it has no meaning here. Raises ``InvalidSchedule`` for what
    names no fixed slots.
    """
    if isinstance(value, stock.crontab):
        return _crontab(app, value, warn)
    if isinstance(value, stock.schedule):
        return _stock_interval(app, value, relative, warn)
    if isinstance(value, timedelta):
        return _interval(app, value, relative, warn)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _interval(app, _seconds(value), relative, warn)
    raise _unsupported(value)


def _stock_interval(app: Celery, schedule: Any, relative: bool, warn: Warn) -> Every:
    _refuse_overriding(schedule, stock.schedule)
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
    if relative and interval >= _DAY and not _is_utc(app):
        warn(
            "relative=True is ignored, and slots lie on whole days of UTC, not of"
            f" {app.conf.timezone}: use crontab(...) for local midnight"
        )
    return Every(interval)


def _crontab(app: Celery, crontab: Any, warn: Warn) -> CronSets:
    _refuse_overriding(crontab, stock.crontab)
    _warn_of_its_clock(crontab, stock.crontab, warn)
    return CronSets(
        crontab.minute,
        crontab.hour,
        crontab.day_of_month,
        crontab.month_of_year,
        crontab.day_of_week,
        _zone_of(app, crontab),
        day="and",
    )


def _zone_of(app: Celery, schedule: Any) -> str | tzinfo:
    """Return the zone that ``schedule.tz`` is, without writing it to the user's object."""
    own: Any = vars(schedule).get("tz")
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


def _refuse_overriding(schedule: object, base: type) -> None:
    cls = type(schedule)
    if _is_zoned(cls):
        return
    own = [name for name in _DECIDE if getattr(cls, name, None) is not getattr(base, name, None)]
    if own:
        raise _refused(
            f"{cls.__qualname__} overrides {own[0]}(), so its slots cannot be known beforehand",
            f"use {base.__name__}(...) itself",
        )


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
    if isinstance(value, str):
        return _refused(
            f"{value!r} is text", 'write crontab.from_string("0 8 * * *"), or seconds as a number'
        )
    if isinstance(value, Decimal):
        return _refused(f"{value!r} is a Decimal", f"write float({value})")
    if isinstance(value, bool):
        return _refused(f"{value!r} is not a number of seconds", _FIX)
    name = type(value).__qualname__
    if isinstance(value, stock.solar):
        return _refused("solar events are not supported yet", "use crontab(...)")
    return _refused(f"{name} is no schedule with slots that can be known beforehand", _FIX)


def _refused(problem: str, fix: str) -> InvalidSchedule:
    return InvalidSchedule(problem, option="schedule", fix=fix)
