"""The schedule run by an app's workers themselves: a thread in the main process of each.

It starts before the worker takes its first message, after its pool has forked; pool children
that are forked later take nothing of it over (`embedded_forks`). It stops claiming as soon as
the worker is told to shut down, and hands over while the worker's tasks end.
"""

from __future__ import annotations

import logging
import weakref
from typing import Any

from celery import Celery, bootsteps, signals

from anarchon import ConfigurationError
from anarchon.job import yes_or_no
from anarchon.scheduler.supervised import SupervisedScheduler
from anarchon_celery import embedded_forks
from anarchon_celery.beat_entries import announce
from anarchon_celery.errors import end_for
from anarchon_celery.scheduling import entries_of, scheduler_of
from anarchon_celery.settings import flag

log = logging.getLogger("anarchon.celery")

#: What their pools do to threads leaves none to run a loop of its own on.
_CANNOT_HOST = ("eventlet",)

_asked: weakref.WeakKeyDictionary[Celery, bool] = weakref.WeakKeyDictionary()
_running: weakref.WeakSet[SupervisedScheduler] = weakref.WeakSet()


def embed(app: Celery, wanted: bool | None) -> None:
    """Have the app's workers run its schedule; where ``None`` is given, a setting decides."""
    if wanted is not None:
        _asked[app] = yes_or_no("embedded", wanted)
    app.steps["worker"].add(EmbeddedStep)
    signals.worker_shutting_down.connect(_tell, dispatch_uid="anarchon-embedded")


class EmbeddedStep(bootsteps.StartStopStep):
    """The part of a worker that starts and stops its scheduler."""

    label = "Anarchon"
    requires = ("celery.worker.components:Pool",)

    def include_if(self, parent: Any) -> bool:
        """Tell whether this worker is to run the schedule; says so where it cannot."""
        if not is_wanted(parent.app):
            return False
        pool = parent.pool_cls if isinstance(parent.pool_cls, str) else parent.pool_cls.__module__
        name = pool.rpartition(".")[2]
        if name in _CANNOT_HOST:
            log.error(
                "the schedule is not run by this worker: its %s pool cannot host it; choose"
                " prefork, threads, solo or gevent, or start anarchon-beat",
                name,
            )
            return False
        return True

    def create(self, parent: Any) -> None:
        """Make nothing yet: the pool has not forked."""

    def start(self, parent: Any) -> None:
        """Start the scheduler; a mistake in its entries ends the worker."""
        try:
            entries = entries_of(parent.app)
            announce(entries.sender, embedded=True)
            made = scheduler_of(entries)
        except ConfigurationError as error:
            end_for(error)
        log.info(
            "this worker runs the schedule: jobs=%d store=%s namespace=%s",
            len(made.jobs),
            made.store,
            made.namespace,
        )
        embedded_forks.forget_locks_in_children(parent.app)
        self.obj = SupervisedScheduler(lambda: scheduler_of(entries))
        _running.add(self.obj)
        self.obj.start()

    def close(self, parent: Any) -> None:
        """Claim nothing more, while the rest of the worker closes."""
        if self.obj is not None:
            self.obj.tell()


def is_wanted(app: Celery) -> bool:
    """Tell whether the app's workers are to run its schedule; raises ``ConfigurationError``."""
    asked = _asked.get(app)
    return flag(app, "anarchon_embedded") if asked is None else asked


def _tell(**_: object) -> None:
    """Claim nothing more; called by a signal handler, so nothing here may wait."""
    for running in list(_running):
        running.tell()
