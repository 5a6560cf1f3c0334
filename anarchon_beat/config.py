"""From the command line to a scheduler that is ready to start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from anarchon import AnarchonError, Scheduler
from anarchon_beat.find import CeleryApp, find
from anarchon_beat.find_dramatiq import find_broker
from anarchon_beat.mistakes import Mistake, told
from anarchon_beat.origin import BY_OPTION, mistake_of, store_set_by


@dataclass(frozen=True, slots=True)
class Settings:
    """The options before the command, as they were typed."""

    app: str | None = None
    dramatiq: tuple[str, ...] = ()
    store: str | None = None
    namespace: str | None = None
    disable: tuple[str, ...] = ()
    ignore_beat_scheduler: bool = False
    loglevel: str = "WARNING"
    logfile: str | None = None
    pidfile: str | None = None
    health_file: str | None = None
    log_json: bool = False
    schedule: str | None = None
    """Has no use, as ``max_interval``: taken because `celery beat` takes it."""
    max_interval: int | None = None

    @property
    def name(self) -> str:
        """What the schedule was named by."""
        return self.app or next(iter(self.dramatiq), "")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A scheduler, and the Celery app that its jobs come from, if they do."""

    scheduler: Scheduler
    celery: CeleryApp | None
    store_set_by: str | None
    """The option or setting that names the store; ``None`` where code does."""

    def setting(self, name: str) -> Any:
        """Return a setting of the Celery app; ``None`` where there is none."""
        return self.celery.conf.get(name) if self.celery is not None else None


def load(
    settings: Settings,
    *,
    first: Callable[[CeleryApp | None], None] = lambda _: None,
    is_start: bool = False,
) -> Loaded:
    """Return what the options stand for; connects nowhere. Raises ``Mistake``.

    ``first`` is called once the app is there, and before anything is made of it. With
    ``is_start`` the handlers of `beat_init` are called, and what they change counts.
    """
    found = found_by(settings)
    if isinstance(found, Scheduler):
        first(None)
        return Loaded(found, None, store_set_by(settings, found))
    try:
        first(found)
        scheduler = _scheduler_of(found, settings, is_start)
        return Loaded(scheduler, found, store_set_by(settings, found))
    except Mistake:
        raise
    except AnarchonError as error:
        raise mistake_of(error, store_set_by(settings, found)) from error
    except (Exception, SystemExit) as error:
        raise Mistake(f"-A {settings.app}: {told(error)}") from error


def found_by(settings: Settings) -> Scheduler | CeleryApp:
    """Return what was named; raises ``Mistake``, also for what does not go with it."""
    if settings.dramatiq:
        return _scheduler_of_broker(settings)
    if settings.app is None:
        raise Mistake(
            "no app: type -A module (a Celery app), -A module:name (a Scheduler) or --dramatiq"
            " module before the command"
        )
    found = find(settings.app)
    if isinstance(found, Scheduler):
        _refuse_celery_options(settings)
    return found


def _scheduler_of_broker(settings: Settings) -> Scheduler:
    if settings.app is not None:
        raise Mistake("-A and --dramatiq name two schedules: type one of them")
    if settings.disable:
        raise Mistake(
            f"--disable is for the entries of Celery apps: leave {settings.disable[0]!r} out where"
            f" {settings.name} declares it"
        )
    named = {} if settings.namespace is None else {"namespace": settings.namespace}
    broker = find_broker(settings.dramatiq)
    # not at the top: others need no Dramatiq
    from anarchon_dramatiq import scheduler_for

    try:
        return scheduler_for(broker, store=settings.store, **named)
    except AnarchonError as error:
        raise mistake_of(error, BY_OPTION if settings.store is not None else None) from error


def _refuse_celery_options(settings: Settings) -> None:
    if settings.store is not None:
        raise Mistake(
            f"--store is for Celery apps: {settings.app} names its store itself, as Scheduler(url)"
        )
    if settings.namespace is not None:
        raise Mistake(
            f"--namespace is for Celery apps: {settings.app} names its namespace itself, as"
            " Scheduler(url, namespace=...)"
        )
    if settings.disable:
        raise Mistake(
            f"--disable is for the entries of Celery apps: leave {settings.disable[0]!r} out"
            f" where {settings.app} declares its jobs"
        )


def refuse_other_entries(app: CeleryApp, settings: Settings) -> None:
    """Raise ``Mistake`` where the project keeps its entries where we do not read them."""
    from anarchon_celery import foreign_beat_scheduler

    foreign = foreign_beat_scheduler(app)
    if foreign is not None and not settings.ignore_beat_scheduler:
        raise Mistake(
            f"the entries of beat_scheduler {foreign} live elsewhere, and anarchon-beat reads"
            " beat_schedule only; to run that all the same: --ignore-beat-scheduler"
        )


def _scheduler_of(app: CeleryApp, settings: Settings, is_start: bool) -> Scheduler:
    # not at the top: a plain Scheduler needs no Celery
    from anarchon_celery.beat_entries import announce
    from anarchon_celery.scheduling import entries_of, scheduler_of

    refuse_other_entries(app, settings)
    named = {} if settings.namespace is None else {"namespace": settings.namespace}
    entries = entries_of(app, settings.disable)
    if is_start:
        announce(entries.sender)
    return scheduler_of(entries, store=settings.store, **named)
