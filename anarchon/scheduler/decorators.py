"""Marks on methods: declare jobs on a class now, and give an object of it to a scheduler later."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar, Unpack

from anarchon.job import Duration, JobOptions
from anarchon.schedules import At, Cron, Every, Schedule
from anarchon.schedules.grammar import Day

H = TypeVar("H", bound=Callable[..., Any])

_MARK = "__anarchon_declarations__"


@dataclass(frozen=True, slots=True)
class Declaration:
    """A job that a method was marked with; its schedule is made, and checked, when registered."""

    name: str
    schedule: Callable[[], Schedule]
    options: JobOptions


def every(
    name: str,
    interval: Duration,
    *,
    anchor: datetime | None = None,
    offset: Duration | None = None,
    **options: Unpack[JobOptions],
) -> Callable[[H], H]:
    """Mark a method as a job on a grid of equal steps; see ``Scheduler.every``."""
    return _marked(name, lambda: Every(interval, anchor=anchor, offset=offset), options)


def cron(
    name: str,
    expression: str,
    *,
    timezone: str = "UTC",
    day: Day | None = None,
    **options: Unpack[JobOptions],
) -> Callable[[H], H]:
    """Mark a method as a job by a cron expression; see ``Scheduler.cron``."""
    return _marked(name, lambda: Cron(expression, timezone, day=day), options)


def at(name: str, moment: datetime, **options: Unpack[JobOptions]) -> Callable[[H], H]:
    """Mark a method as a job that runs once; see ``Scheduler.at``."""
    return _marked(name, lambda: At(moment), options)


def declared_on(owner: object) -> Iterator[tuple[Declaration, Callable[..., Any]]]:
    """Yield what the methods of an object were marked with, each with the bound method."""
    for attribute, function in inspect.getmembers_static(type(owner)):
        # @staticmethod and @classmethod may stand above the mark or below it
        marked = function if hasattr(function, _MARK) else getattr(function, "__func__", None)
        for declaration in getattr(marked, _MARK, ()):
            yield declaration, getattr(owner, attribute)


def _marked(name: str, schedule: Callable[[], Schedule], options: JobOptions) -> Callable[[H], H]:
    def mark(function: H) -> H:
        # a method may be marked more than once: two schedules, two jobs
        marks = (*getattr(function, _MARK, ()), Declaration(name, schedule, options))
        setattr(function, _MARK, marks)
        return function

    return mark
