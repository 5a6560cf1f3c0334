"""The strict grammar of cron expressions: text in, sets out.

Cron programs disagree about much that they all accept. What two of the common ones read
differently is refused here, with what to write instead; so is what a person hardly means.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Literal, NamedTuple

from anarchon.errors import InvalidSchedule
from anarchon.schedules.fields import (
    DAY,
    HOUR,
    MINUTE,
    MONTH,
    SECOND,
    WEEKDAY,
    DayRule,
    Field,
    Fields,
    day_rule,
)

Day = Literal["and", "or"]

ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}

_LONGEST = 256
_VALUE = "[0-9]{1,2}|[A-Z]{3}"
_PART = re.compile(
    rf"(?:(?P<star>\*)|(?P<first>{_VALUE})(?:-(?P<last>{_VALUE}))?)(?:/(?P<step>[0-9]{{1,2}}))?"
)
_SPECIAL_DAY = re.compile(r"L|(?P<near>[0-9]{1,2})W")
_SPECIAL_WEEKDAY = re.compile(r"(?P<day>[0-7])#(?P<nth>[1-5])|L(?P<last>[0-7])")
_ALLOWED = {
    MINUTE.name: "0-59",
    HOUR.name: "0-23",
    DAY.name: "1-31, L (the last) or 15W (the weekday nearest the 15th)",
    MONTH.name: "1-12 or JAN-DEC",
    WEEKDAY.name: "0-7 or SUN-SAT, 5#2 (the second Friday) or L5 (the last Friday)",
    SECOND.name: "0-59; of six fields the seconds come last",
}


class _Set(NamedTuple):
    values: tuple[int, ...]
    special: tuple[str, ...]
    # Whether the text has a star, and whether it is nothing else.
    starred: bool
    free: bool


@lru_cache(maxsize=1024)
def parse(expression: str, day: Day | None) -> Fields:
    """Read five fields, or six with the seconds last, or an alias such as ``@daily``.

    ``day`` says how day of month and weekday combine where both restrict; where it is
    ``None``, either suffices, as POSIX has it. Raises ``InvalidSchedule``, naming the field
    and what it may hold.
    """
    if len(expression) > _LONGEST:
        raise _refused(f"is longer than {_LONGEST} characters", expression)
    texts = _split(expression)
    minutes, hours, days, months, weekdays = (
        _field(text, field)
        for text, field in zip(texts[:5], (MINUTE, HOUR, DAY, MONTH, WEEKDAY), strict=True)
    )
    seconds = (0,) if len(texts) == 5 else _field(texts[5], SECOND).values
    return Fields(
        seconds,
        minutes.values,
        hours.values,
        months.values,
        _days(days, weekdays, day, expression),
    )


def _split(expression: str) -> list[str]:
    stripped = expression.strip(" \t")
    if stripped.startswith("@"):
        alias = ALIASES.get(stripped.lower())
        if alias is None:
            raise InvalidSchedule(
                f"unknown alias {stripped!r}",
                option="cron",
                fix=f"write one of {', '.join(ALIASES)}; for an interval use every",
            )
        return alias.split()
    # Not `split()`: it would also part at a no-break space.
    texts = re.split(r"[ \t]+", stripped) if stripped else []
    if len(texts) not in (5, 6):
        raise _refused(f"has {len(texts)} fields", expression)
    return texts


def _refused(problem: str, expression: str) -> InvalidSchedule:
    shown = expression if len(expression) <= 60 else expression[:60] + "..."
    return InvalidSchedule(
        f"the expression {shown!r} {problem}",
        option="cron",
        fix="write 5 fields: minute, hour, day of month, month, weekday; a sixth is seconds",
    )


@lru_cache(maxsize=1024)
def _field(text: str, field: Field) -> _Set:
    values: set[int] = set()
    special: set[str] = set()
    # `upper` makes letters out of what is none: "ſ" would become "S".
    parts = text.upper().split(",") if text.isascii() else [text]
    for part in parts:
        if extended := _special(part, field):
            special.add(extended)
        elif part == "*" and len(parts) > 1:
            raise _wrong(field, part, "admits every value: the rest of the list says nothing")
        else:
            values.update(_values(part, field))
    return _Set(
        tuple(sorted(values)),
        tuple(sorted(special)),
        starred="*" in text,
        free=text in ("*", "*/1"),
    )


def _special(part: str, field: Field) -> str | None:
    if field is DAY and (match := _SPECIAL_DAY.fullmatch(part)):
        if match["near"] is None:
            return part
        number = _number(match["near"], field, part)
        return f"{number}W"
    if field is WEEKDAY and (match := _SPECIAL_WEEKDAY.fullmatch(part)):
        if match["last"] is not None:
            return f"L{int(match['last']) % 7}"
        return f"{int(match['day']) % 7}#{match['nth']}"
    return None


def _values(part: str, field: Field) -> Iterator[int]:
    match = _PART.fullmatch(part)
    if match is None:
        raise _wrong(field, part, _hint(part, field))
    step = int(match["step"]) if match["step"] else 1
    if not 1 <= step <= field.high - field.low + 1:
        raise _wrong(field, part, f"has a step outside 1-{field.high - field.low + 1}")
    if match["star"]:
        return iter(range(field.low, field.high + 1, step))
    first = _number(match["first"], field, part)
    if match["last"] is None:
        if match["step"]:
            raise _wrong(field, part, f"is read in several ways, write {first}-{field.high}/{step}")
        return iter([first % 7 if field is WEEKDAY else first])
    return iter(_range(first, _number(match["last"], field, part), field)[::step])


def _range(first: int, last: int, field: Field) -> list[int]:
    """Return the values from first to last, over the end of the field where they wrap."""
    if first <= last:
        whole = range(first, last + 1)
        return [value % 7 for value in whole] if field is WEEKDAY else list(whole)
    return [*range(first, field.high + 1), *range(field.low, last + 1)]


def _number(text: str, field: Field, part: str) -> int:
    if not text.isdigit():
        if text not in field.names:
            raise _wrong(field, part, f"has no meaning here: {text!r}")
        return field.names[text]
    number = int(text)
    high = 7 if field is WEEKDAY else field.high
    if not field.low <= number <= high:
        raise _wrong(field, part, f"is outside {field.low}-{high}")
    return number


def _hint(part: str, field: Field) -> str:
    hints: list[tuple[Callable[[str], bool], str]] = [
        (lambda text: text == "?", "is Quartz's, write '*'"),
        (lambda text: text[:1] in ("H", "R"), "would differ from instance to instance"),
        (lambda text: bool(re.fullmatch("[A-Z]{3}#[1-5]", text)), "needs a number: write 5#2"),
        (lambda text: bool(re.fullmatch("[0-7]L", text)), "is written the other way round: L5"),
    ]
    for applies, hint in hints:
        if applies(part):
            return hint
    return "cannot be read"


def _wrong(field: Field, part: str, problem: str) -> InvalidSchedule:
    shown = part if len(part) <= 24 else part[:24] + "..."
    return InvalidSchedule(
        f"{field.name} field: {shown!r} {problem}",
        option="cron",
        fix=f"the {field.name} is {_ALLOWED[field.name]}; "
        "also *, a list 1,2, a range 1-5, a step */2 or 1-9/2",
    )


def _days(days: _Set, weekdays: _Set, day: Day | None, expression: str) -> DayRule:
    both = not days.free and not weekdays.free
    if both and day is None:
        _refuse_disputed(days, weekdays, expression)
    return day_rule(
        days.values,
        weekdays.values,
        special_days=days.special,
        special_weekdays=weekdays.special,
        either=both and day != "and",
    )


def _refuse_disputed(days: _Set, weekdays: _Set, expression: str) -> None:
    full = len(days.values) == len(DAY.full) or len(weekdays.values) == len(WEEKDAY.full)
    if days.starred or weekdays.starred or full:
        raise InvalidSchedule(
            f"day of month and weekday of {expression!r} both restrict, and cron programs "
            "disagree whether a day must match both or either of them",
            option="day",
            fix='write day="and" or day="or"',
        )
