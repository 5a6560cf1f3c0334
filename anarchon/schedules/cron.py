"""`Cron`, read from an expression, and `CronSets`, given as sets of integers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import tzinfo

from anarchon.errors import InvalidSchedule
from anarchon.schedules.calendar import Calendar, calendar_of
from anarchon.schedules.fields import (
    DAY,
    HOUR,
    MINUTE,
    MONTH,
    WEEKDAY,
    Field,
    Fields,
    canonical_text,
    day_rule,
)
from anarchon.schedules.grammar import Day, parse
from anarchon.schedules.local import LocalSchedule
from anarchon.schedules.zones import zone_named


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class Cron(LocalSchedule):
    """Slots by a cron expression, in the local time of an IANA zone.

    Five fields (minute, hour, day of month, month, weekday), or six with the seconds last,
    or ``@hourly``, ``@daily``, ``@midnight``, ``@weekly``, ``@monthly``, ``@yearly``,
    ``@annually``. Where day of month and weekday both restrict, a day matches by either;
    ``day="and"`` asks for both, and where cron programs disagree it must be said.
    """

    expression: str

    def __init__(
        self, expression: str, timezone: str | tzinfo = "UTC", *, day: Day | None = None
    ) -> None:
        if not isinstance(expression, str):
            raise InvalidSchedule(
                f"{expression!r} is not text",
                option="cron",
                fix='write an expression such as "0 8 * * 1-5"',
            )
        _check_day(day)
        fields = parse(expression, day)
        LocalSchedule.__init__(self, *_resolved(fields, timezone, repr(expression)))
        object.__setattr__(self, "expression", expression)

    def __str__(self) -> str:
        return f"cron {self.expression} ({self.timezone})"

    def __repr__(self) -> str:
        rule = self.fields.days
        restricted = rule.days != DAY.full and rule.weekdays != WEEKDAY.full
        day = f", day={'or' if rule.either else 'and'!r}" if restricted else ""
        return f"Cron({self.expression!r}, {self.timezone!r}{day})"


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class CronSets(LocalSchedule):
    """Slots by five sets of integers, as Celery's crontab holds them; weekday 0 is Sunday.

    Where days and weekdays both restrict, a day must match both, or with ``day="or"``
    either of them.
    """

    def __init__(
        self,
        minutes: Iterable[int],
        hours: Iterable[int],
        days: Iterable[int],
        months: Iterable[int],
        weekdays: Iterable[int],
        zone: str | tzinfo,
        *,
        day: Day = "and",
    ) -> None:
        _check_day(day)
        fields = Fields(
            (0,),
            _checked(minutes, MINUTE),
            _checked(hours, HOUR),
            months=_checked(months, MONTH),
            days=day_rule(_checked(days, DAY), _checked(weekdays, WEEKDAY), either=day == "or"),
        )
        shown = f"the cron of {canonical_text(fields)!r}"
        LocalSchedule.__init__(self, *_resolved(fields, zone, shown))

    def __str__(self) -> str:
        return self.canonical()

    def __repr__(self) -> str:
        return f"<CronSets {canonical_text(self.fields)} {self.timezone}>"


def _resolved(
    fields: Fields, zone: str | tzinfo, shown: str
) -> tuple[Fields, str, Calendar, tzinfo]:
    key, found = zone_named(zone)
    calendar = calendar_of(fields)
    if not calendar.happens():
        raise InvalidSchedule(
            f"{shown} never happens: no month has such a day",
            option="cron",
            fix="check day of month and weekday against the month",
        )
    return fields, key, calendar, found


def _check_day(day: object) -> None:
    if day not in (None, "and", "or"):
        raise InvalidSchedule(
            f"{day!r} does not say how day of month and weekday combine",
            option="day",
            fix='write day="and" or day="or"',
        )


def _checked(values: Iterable[int], field: Field) -> tuple[int, ...]:
    found = set(values)
    # A float or a bool equals an integer, and would sit in the set in its place.
    wrong = [value for value in found if type(value) is not int or value not in field.full]
    if wrong or not found:
        problem = f"{wrong[0]!r} is no {field.name}" if wrong else f"no {field.name} at all"
        raise InvalidSchedule(
            problem,
            option="cron",
            fix=f"give integers from {field.low} to {field.high}",
        )
    return tuple(sorted(found))
