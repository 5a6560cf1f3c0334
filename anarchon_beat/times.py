"""Moments as people read them: absolute in UTC, and relative as ``systemctl list-timers`` says."""

from __future__ import annotations

from datetime import datetime, timedelta

_UNITS = (
    ("y", timedelta(days=365)),
    ("d", timedelta(days=1)),
    ("h", timedelta(hours=1)),
    ("min", timedelta(minutes=1)),
    ("s", timedelta(seconds=1)),
)
_SECOND, _MILLISECOND = timedelta(seconds=1), timedelta(milliseconds=1)


def absolute(moment: datetime) -> str:
    """Write a UTC moment with its weekday; milliseconds only where there are any."""
    millis = f".{moment.microsecond // 1000:03d}" if moment.microsecond // 1000 else ""
    return f"{moment:%a %Y-%m-%d %H:%M:%S}{millis} UTC"


def relative(moment: datetime, now: datetime) -> str:
    """Say how far away a moment is: ``3min 20s ago``, ``in 2h 5min``."""
    if moment > now:
        return f"in {span(moment - now)}"
    return f"{span(now - moment)} ago"


def span(length: timedelta) -> str:
    """Say how long something is, by its two largest units."""
    if length < timedelta(0):
        return f"-{span(-length)}"
    if length < _SECOND:
        return f"{length // _MILLISECOND}ms"
    for place, (unit, size) in enumerate(_UNITS):
        count, rest = divmod(length, size)
        if not count:
            continue
        if unit == "s":
            return (
                f"{length / _SECOND:.1f}s" if count < 10 and rest // _MILLISECOND else f"{count}s"
            )
        smaller, smaller_size = _UNITS[place + 1]
        more = rest // smaller_size
        return f"{count}{unit} {more}{smaller}" if more else f"{count}{unit}"
    return "0s"
