"""Schedules and entries that decide for themselves when they are due, asked as `celery beat` does.

Celery hands such an object the time of the last run; here that is the job's newest slot, so
all instances ask the same question. A `BaseSchedule` without a clock of its own takes the
store's time for the present, as all else does; one that has its own keeps it.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from celery import Celery
from celery import schedules as stock
from celery.beat import ScheduleEntry

from anarchon import Polled

#: What an object holds that says nothing of when it is due.
_BESIDE = frozenset(("_app", "app", "nowfun", "utc_enabled", "last_run_at", "total_run_count"))
#: No moments: most tell when the object was made, and each instance makes its own.
_PLAIN = (str, bytes, int, float, Decimal, timedelta, type(None))


class Custom(Polled):
    """Whatever of Celery's kind has to be asked; ``written`` is the object as the user made it."""

    def __init__(self, app: Celery, written: Any) -> None:
        self._app = app
        self._now: datetime | None = None
        self._name = f"{type(written).__module__}.{type(written).__qualname__}"
        # what it holds by now: later it may count, and each instance would count for itself
        self._text = f"asked {self._name} {_state_of(written)}"

    def is_due(self, newest: datetime, now: datetime, /) -> tuple[bool, timedelta | None]:
        """Ask the object; raises what it raises, and ``TypeError`` for what is no answer."""
        # the zone in which Celery hands over its times: some rules look at the hour
        zone = self._app.timezone
        self._now = now.astimezone(zone)
        answer: Any = self._ask(newest.astimezone(zone))
        try:
            due, seconds = answer
        except (TypeError, ValueError):
            raise TypeError(f"is_due() returned {answer!r}, not (is_due, seconds)") from None
        return bool(due), _length(seconds)

    @abstractmethod
    def _ask(self, last_run_at: datetime) -> Any: ...

    def canonical(self) -> str:
        """Return the object's class, and the plain values it held at first."""
        return self._text

    def _on_our_clock(self, schedule: Any) -> Any:
        """Return a schedule that shares all that this one holds, but takes our time for now."""
        cls = type(schedule)
        its_now: Any = getattr(cls, "now", None)
        if its_now is not stock.BaseSchedule.now or getattr(schedule, "nowfun", None) is not None:
            return schedule
        members = {"__module__": cls.__module__, "now": lambda _: self._now}
        view: Any = object.__new__(type(cls.__name__, (cls,), members))
        view.__dict__ = vars(schedule)
        return view

    def __str__(self) -> str:
        return f"asked: {self._name}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name}>"


class CustomSchedule(Custom):
    """A schedule with ``is_due(last_run_at)``, of whatever class."""

    def __init__(self, app: Celery, written: Any) -> None:
        super().__init__(app, written)
        _give_app(written, app)
        self._schedule = self._on_our_clock(written)

    def _ask(self, last_run_at: datetime) -> Any:
        return self._schedule.is_due(last_run_at)


class CustomEntry(Custom):
    """A ``ScheduleEntry`` whose class decides in ``is_due()``, by ``last_run_at`` of its own."""

    def __init__(self, app: Celery, written: ScheduleEntry) -> None:
        super().__init__(app, written)
        self._text += f" on {type(written.schedule).__qualname__} {_state_of(written.schedule)}"
        self._entry = written

    def _ask(self, last_run_at: datetime) -> Any:
        written = self._entry
        asked = object.__new__(type(written))
        vars(asked).update(vars(written))
        asked.last_run_at = last_run_at
        asked.schedule = self._on_our_clock(written.schedule)
        return asked.is_due()


def _give_app(schedule: Any, app: Celery) -> None:
    # as Celery does with whatever is given as a schedule
    try:
        schedule.app = app
    except AttributeError:
        pass


def _length(seconds: Any) -> timedelta | None:
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float | Decimal):
        raise TypeError(f"is_due() returned {seconds!r} for the seconds until it is to be asked")
    if math.isnan(seconds):
        raise ValueError("is_due() returned nan for the seconds until it is to be asked")
    try:
        return max(timedelta(seconds=float(seconds)), timedelta(0))
    except OverflowError:
        return None if seconds > 0 else timedelta(0)


def _state_of(written: Any) -> str:
    """Return the plain values an object holds, each instance's the same; all else is left out."""
    held = getattr(written, "__dict__", {})
    told = {
        name: _shown(value)
        for name, value in sorted(held.items())
        if name not in _BESIDE and _is_plain(value)
    }
    return " ".join(f"{name}={value}" for name, value in told.items())


def _is_plain(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(_is_plain(part) for pair in value.items() for part in pair)
    if isinstance(value, tuple | list | set | frozenset):
        return all(map(_is_plain, value))
    return type(value) is bool or type(value) in _PLAIN


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return f"{{{_joined(f'{_shown(key)}: {_shown(held)}' for key, held in value.items())}}}"
    if isinstance(value, set | frozenset):
        # in one order, whatever the hashes of this process are
        return f"{{{_joined(sorted(map(_shown, value)))}}}"
    if isinstance(value, tuple | list):
        return f"[{_joined(map(_shown, value))}]"
    return repr(value)


def _joined(parts: Iterable[str]) -> str:
    return ", ".join(parts)
