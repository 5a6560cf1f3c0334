"""Durations as people write them: read into ``timedelta``, and said back."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from fractions import Fraction

from anarchon.errors import ConfigurationError

_MICROSECONDS = {
    "w": 604_800_000_000,
    "d": 86_400_000_000,
    "h": 3_600_000_000,
    "m": 60_000_000,
    "s": 1_000_000,
    "ms": 1_000,
}
_UNITS = list(_MICROSECONDS)
_TEXT = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ms|[wdhms])\s*)+")
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|[wdhms])")
_LONGEST_TEXT = 64
_FIX = 'write a timedelta, a number of seconds, or text such as "10s", "1h30m", "250ms" or "2d"'


def duration(value: timedelta | float | str, *, option: str, allow_zero: bool = False) -> timedelta:
    """Read a duration given as ``timedelta``, seconds, or text such as ``"1h30m"``.

    Raises ``ConfigurationError``, naming the option, for anything else and for what is not
    above zero (not below it with ``allow_zero``).
    """
    try:
        read = _read(value)
    except OverflowError:
        raise _refused(value, "is too long", option) from None
    if read is None:
        raise _refused(value, "is not a duration", option)
    if read < timedelta(0) or (not read and not allow_zero):
        least = "zero or more" if allow_zero else "more than zero"
        raise _refused(value, f"must be {least}", option)
    return read


def describe(length: timedelta) -> str:
    """Say a duration the way `duration` reads it: ``"1h30m"``."""
    left = length // timedelta(microseconds=1)
    sign = "-" if left < 0 else ""
    left = abs(left)
    if left and left % _MICROSECONDS["w"] == 0:
        return f"{sign}{left // _MICROSECONDS['w']}w"
    if left < _MICROSECONDS["s"]:
        return f"{sign}{_decimal(left, 'ms')}ms" if left else "0s"
    parts = []
    for unit in ("d", "h", "m"):
        count, left = divmod(left, _MICROSECONDS[unit])
        parts.append(f"{count}{unit}" if count else "")
    seconds = f"{_decimal(left, 's')}s" if left else ""
    return sign + "".join(parts) + seconds


def _read(value: object) -> timedelta | None:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return timedelta(seconds=value)
    if isinstance(value, float):
        return timedelta(seconds=value) if math.isfinite(value) else None
    if isinstance(value, str):
        return _read_text(value.strip())
    return None


def _read_text(text: str) -> timedelta | None:
    if len(text) > _LONGEST_TEXT or not _TEXT.fullmatch(text):
        return None
    total = Fraction(0)
    largest = -1
    for count, unit in _PART.findall(text):
        # "30m1h" and "5m5m" are more often a slip than a wish.
        if _UNITS.index(unit) <= largest:
            return None
        largest = _UNITS.index(unit)
        total += Fraction(count) * _MICROSECONDS[unit]
    if total.denominator != 1:
        return None
    return timedelta(microseconds=int(total))


def _decimal(microseconds: int, unit: str) -> str:
    whole, rest = divmod(microseconds, _MICROSECONDS[unit])
    digits = len(str(_MICROSECONDS[unit])) - 1
    return f"{whole}.{rest:0{digits}d}".rstrip("0").rstrip(".")


def _refused(value: object, problem: str, option: str) -> ConfigurationError:
    shown = describe(value) if isinstance(value, timedelta) else repr(value)
    if len(shown) > _LONGEST_TEXT:
        shown = shown[:_LONGEST_TEXT] + "..."
    return ConfigurationError(f"{shown} {problem}", option=option, fix=_FIX)
