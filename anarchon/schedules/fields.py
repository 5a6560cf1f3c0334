"""The fields of a cron as sets: which values each admits, and their one canonical spelling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import NamedTuple


@dataclass(frozen=True, eq=False)
class Field:
    """One field of a cron: its name and the values it may hold."""

    name: str
    low: int
    high: int
    names: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def full(self) -> tuple[int, ...]:
        """Every value of the field."""
        return tuple(range(self.low, self.high + 1))


_MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
_WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]

SECOND = Field("second", 0, 59)
MINUTE = Field("minute", 0, 59)
HOUR = Field("hour", 0, 23)
DAY = Field("day of month", 1, 31)
MONTH = Field("month", 1, 12, {name: number for number, name in enumerate(_MONTHS, 1)})
WEEKDAY = Field("weekday", 0, 6, {name: number for number, name in enumerate(_WEEKDAYS)})


class DayRule(NamedTuple):
    """Which days of a month match: by number, by weekday, by both or by either.

    The special ones are text of the extended dialect, such as ``L``, ``15W`` and ``5#2``.
    """

    days: tuple[int, ...]
    weekdays: tuple[int, ...]
    special_days: tuple[str, ...] = ()
    special_weekdays: tuple[str, ...] = ()
    either: bool = False

    @property
    def is_extended(self) -> bool:
        """Whether the extended dialect is needed to say it."""
        return bool(self.special_days or self.special_weekdays)


class Fields(NamedTuple):
    """What a cron means, whatever its spelling; equal meaning is equal."""

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    months: tuple[int, ...]
    days: DayRule


@lru_cache(maxsize=1024)
def day_rule(
    days: tuple[int, ...],
    weekdays: tuple[int, ...],
    *,
    special_days: tuple[str, ...] = (),
    special_weekdays: tuple[str, ...] = (),
    either: bool = False,
) -> DayRule:
    """Return the rule, reduced: fields that restrict nothing leave no trace in it."""
    rule = DayRule(
        tuple(sorted(set(days))),
        tuple(sorted(set(weekdays))),
        tuple(sorted(set(special_days))),
        tuple(sorted(set(special_weekdays))),
        either,
    )
    all_days, all_weekdays = rule.days == DAY.full, rule.weekdays == WEEKDAY.full
    if all_days:
        rule = rule._replace(special_days=())
    if all_weekdays:
        rule = rule._replace(special_weekdays=())
    if either and (all_days or all_weekdays):
        return DayRule(DAY.full, WEEKDAY.full)
    return rule


def canonical_text(fields: Fields) -> str:
    """Spell the fields in cron's order, seconds last and only where they are not ``0``."""
    rule = fields.days
    texts = [
        _spelled(fields.minutes, MINUTE),
        _spelled(fields.hours, HOUR),
        _spelled(rule.days, DAY, rule.special_days),
        _spelled(fields.months, MONTH),
        _spelled(rule.weekdays, WEEKDAY, rule.special_weekdays),
    ]
    if fields.seconds != (0,):
        texts.append(_spelled(fields.seconds, SECOND))
    return f"{' '.join(texts)} {'or' if rule.either else 'and'}"


@lru_cache(maxsize=1024)
def _spelled(values: tuple[int, ...], field: Field, special: tuple[str, ...] = ()) -> str:
    if values == field.full:
        return "*"
    parts: list[str] = []
    start = 0
    for end, value in enumerate(values):
        if end + 1 < len(values) and values[end + 1] == value + 1:
            continue
        first = values[start]
        parts.append(str(first) if first == value else f"{first}-{value}")
        start = end + 1
    return ",".join([*parts, *special])
