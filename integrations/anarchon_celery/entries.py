"""The entries of a project's beat schedule, read and checked before anything runs."""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from celery import Celery
from celery.beat import ScheduleEntry
from celery.schedules import crontab

from anarchon import ConfigurationError, Schedule
from anarchon.backends.urls import unreadable
from anarchon_celery.schedules import slots_of

log = logging.getLogger("anarchon.celery")

T = TypeVar("T")

CLEANUP = "celery.backend_cleanup"

_SHOWN_KEYS = ("task", "schedule", "args", "kwargs", "options", "relative")
_KEYS = frozenset((*_SHOWN_KEYS, "last_run_at", "total_run_count", "name", "app"))
_OF_DJANGO_CELERY_BEAT = ("enabled", "one_off", "start_time", "expire_seconds")
#: What people write beside ``options`` and mean as one of them.
_OPTIONS = frozenset(
    (
        *("queue", "exchange", "routing_key", "priority", "expires", "countdown", "eta"),
        *("headers", "serializer", "compression", "time_limit", "soft_time_limit", "link"),
        *("link_error", "retry", "retry_policy", "task_id", "ignore_result", "shadow"),
    )
)
_GIVEN_BY_US = ("args", "kwargs", "producer", "publisher", "connection")
_ADDRESS = re.compile(r" at 0x[0-9a-f]{4,}")


@dataclass(frozen=True, slots=True)
class Entry:
    """One periodic task; ``ours`` are the job's options, all else is as the user wrote it.

    Every instance reads the same object, so nothing in it may be changed.
    """

    name: str
    schedule: Schedule
    task: str
    args: tuple[object, ...]
    kwargs: Mapping[str, object]
    options: Mapping[str, object]
    ours: Mapping[str, object]


def load(app: Celery) -> None:
    """Import the project's tasks and let its handlers add theirs, as `celery beat` does."""
    app.loader.init_worker()
    app.finalize()


def read_entries(
    app: Celery, left_out: Collection[str] = ()
) -> tuple[list[Entry], list[ConfigurationError]]:
    """Return the entries of a loaded app, but for those left out, and all that is wrong."""
    configured = _configured(app)
    _refuse_unreadable_results(app)
    entries: list[Entry] = []
    problems: list[ConfigurationError] = []
    for name, value in {**_default_entries(app, configured, left_out), **configured}.items():
        if name in left_out:
            continue
        reading = _Reading(app, name)
        entry = reading.entry(value)
        problems += reading.problems
        if entry is not None and not reading.problems:
            entries.append(entry)
    return entries, problems


def _refuse_unreadable_results(app: Celery) -> None:
    """Have an error that may quote a piece of a password now, and not with every message."""
    try:
        app.backend  # noqa: B018  # made when it is first looked at
    except ValueError:
        raise unreadable("result_backend") from None
    except ImportError:
        url = str(app.conf.result_backend)
        if "@" in url and "://" not in url:
            # taken for the name of a class, and quoted as one that is not there
            raise unreadable("result_backend") from None


def names_in(app: Celery) -> frozenset[str]:
    """Return the names that may be left out."""
    return frozenset((*map(str, _configured(app)), CLEANUP))


def _configured(app: Celery) -> Mapping[str, object]:
    configured: object = app.conf.beat_schedule
    if isinstance(configured, Mapping):
        return configured
    raise ConfigurationError(
        f"{configured!r} is not a mapping",
        option="beat_schedule",
        fix='write {"NAME": {"task": ..., "schedule": ...}}',
    )


def _default_entries(
    app: Celery, configured: Mapping[str, object], left_out: Collection[str]
) -> dict[str, object]:
    """Return what stock beat adds: old results are removed where no backend does it itself."""
    if CLEANUP in configured or CLEANUP in left_out or not app.conf.result_expires:
        return {}
    if app.backend.supports_autoexpire:
        return {}
    schedule = crontab("0", "4", "*")
    return {CLEANUP: {"task": CLEANUP, "schedule": schedule, "options": {"expires": 12 * 3600}}}


class _Reading:
    """Reads one entry; what is wrong is gathered, so that it can be told all at once."""

    def __init__(self, app: Celery, name: object) -> None:
        self._app = app
        self._name = name
        self.problems: list[ConfigurationError] = []

    def entry(self, value: object) -> Entry | None:
        """Return the entry, or ``None`` if there is a problem."""
        fields = self._checked(_fields, value)
        if fields is None:
            return None
        for key in fields:
            self._checked(_refuse_unknown, key)
        if not isinstance(value, ScheduleEntry):
            for key in ("last_run_at", "total_run_count"):
                if fields.get(key):
                    self._warn(f"{key} is ignored: what ran is in the store")
        name = self._checked(_name, self._name)
        task = self._checked(_task, fields.get("task"))
        schedule = self._checked(self._slots, fields)
        args = self._checked(_args, fields.get("args"))
        kwargs = self._checked(_kwargs, fields.get("kwargs"))
        options = self._checked(_options, fields.get("options"))
        ours = self._checked(_ours, options.get("anarchon") if options else None)
        if name is None or task is None or schedule is None or args is None:
            return None
        if kwargs is None or options is None or ours is None:
            return None
        if options.get("task_id") is not None:
            self._warn(
                "every message gets the same task_id; a worker that finds one of them expired"
                " discards all that follow for hours"
            )
        sent = {key: option for key, option in options.items() if key != "anarchon"}
        return Entry(name, schedule, task, args, kwargs, sent, ours)

    def _slots(self, fields: Mapping[str, Any]) -> Schedule:
        relative = bool(fields.get("relative"))
        return slots_of(self._app, fields.get("schedule"), relative=relative, warn=self._warn)

    def _checked(self, read: Callable[[Any], T], value: object) -> T | None:
        try:
            return read(value)
        except ConfigurationError as error:
            self.problems.append(error.of_job(str(self._name)))
            return None

    def _warn(self, what: str) -> None:
        log.warning("entry %r: %s", self._name, what)


def _fields(value: object) -> dict[Any, Any]:
    if isinstance(value, ScheduleEntry):
        if type(value).is_due is not ScheduleEntry.is_due:
            raise ConfigurationError(
                f"{type(value).__qualname__} overrides is_due(), so its slots cannot be known",
                option="schedule",
                fix="use ScheduleEntry itself, or a mapping",
            )
        return dict(vars(value))
    if isinstance(value, Mapping):
        return dict(value)
    raise ConfigurationError(
        f"{value!r} is no entry", fix='write {"task": "proj.tasks.add", "schedule": 30.0}'
    )


def _refuse_unknown(key: object) -> None:
    if key in _KEYS:
        return
    if key in _OPTIONS:
        fix = f'write it inside options: "options": {{"{key}": ...}}'
    elif key in _OF_DJANGO_CELERY_BEAT:
        fix = "it belongs to django-celery-beat; anarchon_disabled leaves an entry out"
    else:
        near = difflib.get_close_matches(str(key), _KEYS, n=1)
        fix = f"did you mean {near[0]}?" if near else f"use {', '.join(_SHOWN_KEYS)}"
    raise ConfigurationError(f"an entry has no key {key!r}", fix=fix)


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise ConfigurationError(f"the name {name!r} is not text", fix="write a text as key")
    if _ADDRESS.search(name):
        raise ConfigurationError(
            "the name holds a memory address, so that each instance has another",
            option="name",
            fix="give it a name: add_periodic_task(..., name=...)",
        )
    return name


def _task(task: object) -> str:
    if isinstance(task, str) and task:
        return task
    named = getattr(task, "name", None)
    raise ConfigurationError(
        "there is no task" if task is None else f"{task!r} is not the name of a task",
        option="task",
        fix=f'write "{named}"' if isinstance(named, str) else 'write "proj.tasks.add"',
    )


def _args(args: object) -> tuple[object, ...]:
    if args is None:
        return ()
    if isinstance(args, list | tuple):
        return tuple(args)
    raise ConfigurationError(
        f"{args!r} is not a list", option="args", fix="write a list or a tuple"
    )


def _kwargs(kwargs: object) -> dict[str, object]:
    return _mapping("kwargs", kwargs)


def _options(options: object) -> dict[str, object]:
    read = _mapping("options", options)
    for name in _GIVEN_BY_US:
        if name in read:
            fix = "write it beside options" if name in ("args", "kwargs") else "leave it out"
            raise ConfigurationError(f"{name} is no option", option="options", fix=fix)
    _mapping("headers", read.get("headers"))
    return read


def _ours(options: object) -> dict[str, object]:
    return _mapping("anarchon", options)


def _mapping(option: str, value: object) -> dict[str, object]:
    if value is None:
        return {}
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return dict(value)
    raise ConfigurationError(
        f"{value!r} is not a mapping of names", option=option, fix='write {"NAME": value}'
    )
