"""When an actor is due, written where it is declared: ``@dramatiq.actor(periodic=cron(...))``.

What stands there is a value that knows no broker: a schedule, what the message is to carry,
and the options of the job. An expression that cannot be read is refused right there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Unpack

from anarchon import At, ConfigurationError, Cron, Duration, Every, JobOptions, Schedule
from anarchon.job import check_defaults
from anarchon.message import HEADER
from anarchon.schedules.grammar import Day

_NOTHING: Mapping[str, Any] = MappingProxyType({})
#: Options of a message that are lengths in milliseconds; dramatiq finds out when it is late.
_LENGTHS = ("delay", "max_age", "time_limit")
#: What may stand beside the options of a job.
_BESIDE = ("name", "args", "kwargs", "options")


@dataclass(frozen=True, slots=True)
class Periodic:
    """A schedule of an actor.

    ``name`` is the job's, and the actor's if it is left out. ``args``, ``kwargs`` and
    ``options`` are the message's, ``job`` holds the options of the job.
    """

    schedule: Schedule
    name: str | None = None
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    job: Mapping[str, object] = field(default_factory=dict)


def cron(
    expression: str,
    /,
    *,
    timezone: str = "UTC",
    day: Day | None = None,
    name: str | None = None,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] = _NOTHING,
    options: Mapping[str, Any] = _NOTHING,
    **job: Unpack[JobOptions],
) -> Periodic:
    """Let an actor be due by a cron expression in a time zone; ``day`` is "and" or "or"."""
    return checked(Cron(expression, timezone, day=day), name, args, kwargs, options, job)


def every(
    interval: Duration,
    /,
    *,
    anchor: datetime | None = None,
    offset: Duration | None = None,
    name: str | None = None,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] = _NOTHING,
    options: Mapping[str, Any] = _NOTHING,
    **job: Unpack[JobOptions],
) -> Periodic:
    """Let an actor be due on a grid of equal steps from the epoch, or from ``anchor``."""
    schedule = Every(interval, anchor=anchor, offset=offset)
    return checked(schedule, name, args, kwargs, options, job)


def at(
    moment: datetime,
    /,
    *,
    name: str | None = None,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] = _NOTHING,
    options: Mapping[str, Any] = _NOTHING,
    **job: Unpack[JobOptions],
) -> Periodic:
    """Let an actor be due once."""
    return checked(At(moment), name, args, kwargs, options, job)


def checked(
    schedule: Schedule,
    name: str | None,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    options: Mapping[str, Any],
    job: Mapping[str, Any],
) -> Periodic:
    """Return it if its parts are of the right kind; raises ``ConfigurationError``."""
    check_defaults(job, _BESIDE)
    if isinstance(args, str | bytes) or not isinstance(args, Sequence):
        raise ConfigurationError(
            f"{args!r} is no list of arguments", option="args", fix="write args=(1, 2)"
        )
    for option, given in (("kwargs", kwargs), ("options", options)):
        if not isinstance(given, Mapping):
            raise ConfigurationError(
                f"{given!r} is no mapping", option=option, fix=f'write {option}={{"key": "value"}}'
            )
    for taken in (HEADER, "args", "kwargs"):
        if taken in options:
            raise ConfigurationError(
                f"{taken!r} is no option of a message", option="options", fix="leave it out"
            )
    for option in _LENGTHS:
        check_millis(option, options.get(option))
    return Periodic(schedule, name, tuple(args), dict(kwargs), dict(options), dict(job))


def check_millis(option: str, given: object) -> None:
    """Refuse what is no number of milliseconds; ``delay`` may be a ``timedelta``."""
    is_number = isinstance(given, int | float) and not isinstance(given, bool) and given >= 0
    if given is None or is_number or (option == "delay" and isinstance(given, timedelta)):
        return
    raise ConfigurationError(
        f"{given!r} is no number of milliseconds", option=option, fix=f"write {option}=60_000"
    )


def read_periodic(given: object) -> list[Periodic]:
    """Return what the option ``periodic`` of an actor says; raises ``ConfigurationError``."""
    listed = given if isinstance(given, list | tuple) else [given]
    return [_read(one) for one in listed]


def _read(given: Any) -> Periodic:
    if isinstance(given, Periodic):
        return given
    if callable(getattr(given, "next_after", None)) and callable(getattr(given, "latest_at", None)):
        return Periodic(given)
    raise ConfigurationError(
        f"{given!r} is no schedule",
        option="periodic",
        fix='write cron("0 8 * * *") or every("10s"), of anarchon_dramatiq',
    )
