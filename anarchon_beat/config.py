"""From the command line to a scheduler that is ready to start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from anarchon import AnarchonError, Scheduler
from anarchon_beat.find import CeleryApp, find
from anarchon_beat.mistakes import Mistake, code_of, told


@dataclass(frozen=True, slots=True)
class Settings:
    """The options before the command, as they were typed."""

    app: str | None = None
    store: str | None = None
    namespace: str | None = None
    disable: tuple[str, ...] = ()
    ignore_beat_scheduler: bool = False
    loglevel: str = "WARNING"
    logfile: str | None = None
    pidfile: str | None = None
    health_file: str | None = None
    log_json: bool = False


@dataclass(frozen=True, slots=True)
class Loaded:
    """A scheduler, and the Celery app that its jobs come from, if they do."""

    scheduler: Scheduler
    celery: CeleryApp | None

    def setting(self, name: str) -> Any:
        """Return a setting of the Celery app; ``None`` where there is none."""
        return self.celery.conf.get(name) if self.celery is not None else None


def load(
    settings: Settings, *, first: Callable[[CeleryApp | None], None] = lambda _: None
) -> Loaded:
    """Return what the options stand for; connects nowhere. Raises ``Mistake``.

    ``first`` is called once the app is there, and before anything is made of it.
    """
    if settings.app is None:
        raise Mistake(
            "no app: type -A module (a Celery app) or -A module:name (a Scheduler) before the"
            " command"
        )
    found = find(settings.app)
    if isinstance(found, Scheduler):
        _refuse_celery_options(settings)
        first(None)
        return Loaded(found, None)
    try:
        first(found)
        return Loaded(_scheduler_of(found, settings), found)
    except Mistake:
        raise
    except AnarchonError as error:
        raise Mistake(str(error), code_of(error)) from error
    except (Exception, SystemExit) as error:
        raise Mistake(f"-A {settings.app}: {told(error)}") from error


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


def _scheduler_of(app: CeleryApp, settings: Settings) -> Scheduler:
    # not at the top: a plain Scheduler needs no Celery
    from anarchon_celery import foreign_beat_scheduler, scheduler_for

    foreign = foreign_beat_scheduler(app)
    if foreign is not None and not settings.ignore_beat_scheduler:
        raise Mistake(
            f"the entries of beat_scheduler {foreign} live elsewhere, and anarchon-beat reads"
            " beat_schedule only; to run that all the same: --ignore-beat-scheduler"
        )
    named = {} if settings.namespace is None else {"namespace": settings.namespace}
    return scheduler_for(app, store=settings.store, disabled=settings.disable, **named)
