"""`celery -A proj beat -S anarchon` and `celery -A proj worker -B --scheduler anarchon`.

A class that Celery makes, ticks and closes as any beat scheduler, any number of times at once.
What is due is not decided in ``tick()``: that happens on a thread of its own, which starts with
the first tick, after the handlers of `beat_init`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from celery import Celery
from celery.beat import ScheduleEntry

from anarchon import ConfigurationError
from anarchon.backends import open_backend
from anarchon.scheduler.supervised import SupervisedScheduler
from anarchon_celery.beat_sender import Sender
from anarchon_celery.errors import end_for
from anarchon_celery.scheduling import entries_of, scheduler_of
from anarchon_celery.settings import namespace_of, store_of

log = logging.getLogger("anarchon.celery")

_USUAL_FILE = "celerybeat-schedule"
#: A beat in a thread is told to end by a flag that it looks at between two ticks.
_BETWEEN_TICKS = 5.0


class AnarchonScheduler(Sender):
    """A beat scheduler of which any number may run.

    ``schedule`` holds the entries. What handlers of `beat_init` make of it counts; it is read
    at the first tick, and not again.
    """

    def __init__(
        self,
        app: Celery,
        schedule: Mapping[str, ScheduleEntry] | None = None,
        max_interval: int | None = None,
        lazy: bool = False,
        schedule_filename: str | None = None,
        **kwargs: Any,
    ) -> None:
        self._running: SupervisedScheduler | None = None
        super().__init__(app, schedule, max_interval, lazy=lazy, **kwargs)
        if not lazy:
            say_what_has_no_use(
                interval=max_interval or app.conf.beat_max_loop_interval,
                filename=schedule_filename,
            )

    def setup_schedule(self) -> None:
        """Read the entries; ends beat, having told all that is wrong, where they cannot be run."""
        try:
            entries = entries_of(self.app, sender=self)
            # connects nowhere, and what cannot work is to end beat now
            scheduler_of(entries)
        except ConfigurationError as error:
            end_for(error)
        self._running = SupervisedScheduler(lambda: scheduler_of(entries))

    @property
    def info(self) -> str:
        """What the banner says of this scheduler; asks no store."""
        return f"    . store -> {self._store()}\n    . namespace -> {namespace_of(self.app)}"

    def _store(self) -> str:
        try:
            return open_backend(store_of(self.app)).label
        except ConfigurationError as error:
            return str(error)

    def tick(self, *_: Any, **__: Any) -> float:
        """See to it that the scheduler's thread runs; no error of it comes here."""
        try:
            if self._running is not None:
                self._running.start()
        except Exception:
            log.exception("the scheduler's thread could not be started; tried again")
        return min(self.max_interval or _BETWEEN_TICKS, _BETWEEN_TICKS)

    def close(self) -> None:
        """Hand over and end; harmless when that was done."""
        if self._running is not None:
            self._running.stop()
        super().close()


def say_what_has_no_use(*, interval: object, filename: str | None) -> None:
    """Tell whoever sets what only a beat with a file and a loop could use."""
    if interval:
        log.warning("the maximum interval has no use here: the loop wakes when a slot is due")
    if filename not in (None, _USUAL_FILE):
        log.warning(
            "%s has no use here: there is no schedule file, what ran is in the store", filename
        )
