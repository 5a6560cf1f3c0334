"""Celery's own scheduler of periodic tasks, as far as others read and patch it; it is told when.

Sentry, Datadog and their like replace ``celery.beat.Scheduler.apply_entry`` and read or change
the entry that it is given; handlers of ``beat_init`` read ``schedule``. So every message of
ours goes that way, from a copy of its entry that may be changed at will.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from celery import Celery, beat
from celery import schedules as stock

from anarchon import AnarchonError, Cron, Every, Polled, Schedule

log = logging.getLogger("anarchon.celery")


class NotSent(AnarchonError):
    """``apply_entry`` returned without a message having been sent, or an error told."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"entry {name!r}: apply_entry() of celery.beat.Scheduler, which something has"
            " replaced, sent nothing and raised nothing"
        )


@dataclass(frozen=True, slots=True)
class _Sent:
    result: Any


@dataclass(frozen=True, slots=True)
class _Unsent:
    """Stands for a result in a line of stock beat's log about a try that failed."""

    error: BaseException

    @property
    def id(self) -> str:
        return f"none, it is tried again: {self.error!r}"


class Sender(beat.Scheduler):
    """Sends entries through ``apply_entry``; ``schedule`` shows them as `celery beat` would.

    Has no clock and no connection of its own.
    """

    def __init__(
        self,
        app: Celery,
        schedule: Mapping[str, beat.ScheduleEntry] | None = None,
        max_interval: int | None = None,
        lazy: bool = True,
        **kwargs: Any,
    ) -> None:
        # what the try under way came to, as stock beat keeps it to itself
        self._try = threading.local()
        super().__init__(app, dict(schedule or {}), max_interval, lazy=lazy, **kwargs)

    def send(self, entry: beat.ScheduleEntry, producer: Any, *, quietly: bool) -> Any:
        """Send the message of an entry, and return what its task's ``apply_async`` returned.

        Raises what kept it from being sent. ``quietly`` leaves that out of stock beat's log,
        where it has been told before.
        """
        self._try.quietly, self._try.outcome = quietly, None
        # which app is the current one is known to each thread by itself
        self.app.set_current()
        try:
            self.apply_entry(entry, producer=producer)
        except Exception:
            if not isinstance(self._try.outcome, _Sent):
                raise
            # to try again would send it twice
            log.exception("entry %r was sent; what has replaced apply_entry() failed", entry.name)
        outcome = self._try.outcome
        if isinstance(outcome, _Unsent):
            raise outcome.error
        if outcome is None:
            raise NotSent(str(entry.name))
        self._note(str(entry.name))
        return outcome.result

    def apply_async(
        self, entry: Any, producer: Any = None, advance: bool = True, **kwargs: Any
    ) -> Any:
        """Send as stock beat does, and keep what it came to."""
        try:
            result = super().apply_async(entry, producer=producer, advance=advance, **kwargs)
        except beat.SchedulingError as error:
            self._try.outcome = unsent = _Unsent(error.__context__ or error)
            if getattr(self._try, "quietly", False):
                return unsent
            raise
        self._try.outcome = _Sent(result)
        return result

    def _note(self, name: str) -> None:
        # others may have put anything there, and the message is sent
        with contextlib.suppress(Exception):
            shown: Any = self.schedule[name]
            # what app.now() is, without its detour
            shown.last_run_at = datetime.now(self.app.timezone)  # noqa: TID251 - what stock beat notes
            shown.total_run_count += 1

    def should_sync(self) -> bool:
        """Tell that there is nothing to write: what ran is in the store."""
        return False


class Slots(stock.BaseSchedule):
    """A schedule of ours where a reader expects one of Celery's."""

    def __init__(self, slots: Schedule, app: Celery) -> None:
        super().__init__(app=app)
        self.slots = slots

    def __repr__(self) -> str:
        return f"<slots: {self.slots}>"

    def remaining_estimate(self, last_run_at: Any) -> timedelta:
        """Return how long it is until the next slot."""
        following = self.slots.next_after(self.maybe_make_aware(last_run_at))
        return timedelta.max if following is None else following - self.now()

    def is_due(self, last_run_at: Any) -> Any:
        """Tell whether a slot has come since then, and how long it is until the next."""
        left = self.remaining_estimate(last_run_at).total_seconds()
        if left > 0:
            return stock.schedstate(False, left)
        return stock.schedstate(True, self.remaining_estimate(self.now()).total_seconds())


def shown_schedule(app: Celery, written: Any, slots: Schedule) -> Any:
    """Return what stock beat would have as the schedule of an entry.

    ``written`` is what the entry says, and ``slots`` what we made of it.
    """
    if isinstance(written, Polled):
        return Slots(slots, app)
    if isinstance(written, int | float | timedelta) or callable(getattr(written, "is_due", None)):
        return written
    if isinstance(slots, Every):
        return stock.schedule(slots.interval, app=app)
    if isinstance(slots, Cron):
        try:
            crontab: Any = stock.crontab.from_string(slots.expression)
        except ValueError:
            return Slots(slots, app)
        crontab.tz = ZoneInfo(slots.timezone)
        return crontab
    return Slots(slots, app)
