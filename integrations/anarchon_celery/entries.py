"""The entries of a project's beat schedule, read and checked before anything runs."""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from celery import Celery
from celery.beat import ScheduleEntry
from celery.schedules import crontab

from anarchon import ConfigurationError, DuplicateJob, Schedule
from anarchon.backends.urls import unreadable
from anarchon_celery import own_options
from anarchon_celery.beside_tasks import functions_without_task, periodic_entries
from anarchon_celery.custom import CustomEntry
from anarchon_celery.own_options import OwnSettings
from anarchon_celery.schedules import slots_of

log = logging.getLogger("anarchon.celery")

T = TypeVar("T")

CLEANUP = "celery.backend_cleanup"

_SHOWN_KEYS = ("task", "schedule", "args", "kwargs", "options", "relative")
_KEYS = frozenset((*_SHOWN_KEYS, "last_run_at", "total_run_count", "name", "app"))
_OF_DJANGO_CELERY_BEAT = ("one_off", "start_time", "expire_seconds")
_GIVEN_BY_US = ("args", "kwargs", "producer", "publisher", "connection")
_ADDRESS = re.compile(r" at 0x[0-9a-f]{4,}")


@dataclass(frozen=True, slots=True)
class Entry:
    """One periodic task; ``options`` are its message's, and ``job`` the job's.

    ``written`` is the schedule in the user's own words, and ``ours`` are our own options in
    them, for whoever reads entries as beat's.
    Every instance reads the same object, so nothing in it may be changed.
    """

    name: str
    schedule: Schedule
    task: str
    args: tuple[object, ...]
    kwargs: Mapping[str, object]
    options: Mapping[str, object]
    ours: Mapping[str, object]
    job: Mapping[str, object]
    written: object


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
    settings, problems = OwnSettings.read(app)
    problems += own_options.unknown_names(settings.jobs, names_in(app))
    beside, doubles = _beside_tasks(app, configured)
    problems += doubles
    default = _default_entries(app, configured, left_out)
    entries: list[Entry] = []
    for name, value in {**default, **configured, **beside}.items():
        if name in left_out:
            continue
        entry, wrong = _read(app, name, value, settings)
        problems += wrong
        if entry is not None:
            entries.append(entry)
    return entries, problems


def read_entry(
    app: Celery, name: object, value: object
) -> tuple[Entry | None, list[ConfigurationError]]:
    """Return one entry, ``None`` if it is not to run, and what is wrong with it."""
    settings, _ = OwnSettings.read(app)
    return _read(app, name, value, settings)


def _read(
    app: Celery, name: object, value: object, settings: OwnSettings
) -> tuple[Entry | None, list[ConfigurationError]]:
    reading = _Reading(app, name, settings)
    entry = reading.entry(value)
    return (None if reading.problems else entry), reading.problems


def _beside_tasks(
    app: Celery, configured: Mapping[str, object]
) -> tuple[dict[str, object], list[ConfigurationError]]:
    """Return what is periodic by what stands beside its task, each under a name of its own."""
    entries: dict[str, object] = {}
    doubles: list[ConfigurationError] = []
    for name, entry in periodic_entries(app):
        if name in configured or name in entries:
            other = "beat_schedule" if name in configured else "another periodic()"
            doubles.append(
                DuplicateJob(
                    f"a periodic() of this name, and {other}",
                    job=name,
                    option="name",
                    fix="give one of them another: periodic(..., name=...)",
                )
            )
            continue
        entries[name] = entry
    for function in functions_without_task(app):
        log.warning("%s is periodic, and no task: write @app.task above or below", function)
    return entries, doubles


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
    beside = (name for name, _ in periodic_entries(app))
    return frozenset((*map(str, _configured(app)), *beside, CLEANUP))


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

    def __init__(self, app: Celery, name: object, settings: OwnSettings) -> None:
        self._app = app
        self._name = name
        self._settings = settings
        self.problems: list[ConfigurationError] = []

    def entry(self, value: object) -> Entry | None:
        """Return the entry, or ``None`` if there is a problem, or it is not to run."""
        fields = self._checked(_fields, value)
        if fields is None:
            return None
        options = self._checked(_options, fields.get("options"))
        ours = self._checked(self._ours, options.get("anarchon") if options else None)
        if ours is not None and self._checked(own_options.is_enabled, ours) is False:
            return None
        self._look_at_the_rest(value, fields)
        for warning in own_options.misplaced(options or {}):
            self._warn(warning)
        name = self._checked(_name, self._name)
        task = self._checked(_task, fields.get("task"))
        args = self._checked(_args, fields.get("args"))
        kwargs = self._checked(_kwargs, fields.get("kwargs"))
        schedule = None if ours is None else self._schedule(value, fields, ours)
        if options is not None:
            self._checked(partial(own_options.check_expires, schedule), options.get("expires"))
        if name is None or task is None or args is None or kwargs is None:
            return None
        if options is None or ours is None or schedule is None:
            return None
        sent = {key: option for key, option in options.items() if key != "anarchon"}
        job = self._checked(partial(own_options.job_options, schedule, sent, self._settings), ours)
        written = schedule if isinstance(schedule, CustomEntry) else fields.get("schedule")
        if job is None:
            return None
        if options.get("task_id") is not None:
            self._warn(
                "every message gets the same task_id; a worker that finds one of them expired"
                " discards all that follow for hours"
            )
        return Entry(name, schedule, task, args, kwargs, sent, ours, job, written)

    def _look_at_the_rest(self, value: object, fields: Mapping[str, Any]) -> None:
        for key in fields:
            self._checked(_refuse_unknown, key)
        if not isinstance(value, ScheduleEntry):
            for key in ("last_run_at", "total_run_count"):
                if fields.get(key):
                    self._warn(f"{key} is ignored: what ran is in the store")

    def _ours(self, inline: object) -> dict[str, object]:
        ours = {
            **own_options.mapping("anarchon", inline),
            **self._settings.jobs.get(str(self._name), {}),
        }
        for option in ours:
            self._checked(own_options.refuse_unknown, option)
        return ours

    def _schedule(
        self, value: object, fields: Mapping[str, Any], ours: Mapping[str, object]
    ) -> Schedule | None:
        problems = len(self.problems)
        timezone = self._checked(own_options.timezone_of, ours)
        if len(self.problems) > problems:
            return None
        relative = bool(fields.get("relative"))

        def read(written: Any) -> Schedule:
            if isinstance(value, ScheduleEntry) and _decides(value):
                written = CustomEntry(self._app, value)
            return slots_of(
                self._app, written, relative=relative, warn=self._warn, timezone=timezone
            )

        return self._checked(read, fields.get("schedule"))

    def _checked(self, read: Callable[[Any], T], value: object) -> T | None:
        try:
            return read(value)
        except ConfigurationError as error:
            self.problems.append(error.of_job(str(self._name)))
            return None

    def _warn(self, what: str) -> None:
        log.warning(
            "entry %r: %s", self._name, what, extra={"entry": str(self._name), "what": what}
        )


def _decides(entry: ScheduleEntry) -> bool:
    return type(entry).is_due is not ScheduleEntry.is_due


def _fields(value: object) -> dict[Any, Any]:
    if isinstance(value, ScheduleEntry):
        return {key: held for key, held in vars(value).items() if key in _KEYS}
    if isinstance(value, Mapping):
        return dict(value)
    raise ConfigurationError(
        f"{value!r} is no entry", fix='write {"task": "proj.tasks.add", "schedule": 30.0}'
    )


def _refuse_unknown(key: object) -> None:
    if key in _KEYS:
        return
    if key in own_options.OF_MESSAGES:
        fix = f'write it inside options: "options": {{"{key}": ...}}'
    elif key in own_options.KNOWN or key == "anarchon":
        inside = "{...}" if key == "anarchon" else f'{{"{key}": ...}}'
        fix = f'write it inside options: "options": {{"anarchon": {inside}}}'
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
    return own_options.mapping("kwargs", kwargs)


def _options(options: object) -> dict[str, object]:
    read = own_options.mapping("options", options)
    for name in _GIVEN_BY_US:
        if name in read:
            fix = "write it beside options" if name in ("args", "kwargs") else "leave it out"
            raise ConfigurationError(f"{name} is no option", option="options", fix=fix)
    own_options.mapping("headers", read.get("headers"))
    return read
