"""Publishes a periodic task as `celery beat` would, with a note of the run in its headers.

What the message says of time is counted from the slot, so that a run that is late does not
live longer than one in time. A message that has expired by then is sent all the same, as beat
would: the worker revokes it, and whoever watches the tasks sees that.

The message of a tracked run expires when nobody may begin it any more. The job's ``timeout``
is its soft limit; its hard limit comes a third of a lease later, which leaves the task that
long to end by itself, and ends it before the lease can lapse that was renewed until then.
Smaller limits of the entry, the task or the app stay.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from celery import Task
from celery.beat import ScheduleEntry
from celery.utils import uuid
from celery.utils.time import maybe_iso8601, maybe_make_aware

from anarchon import RunContext
from anarchon.message import HEADER, mapping_of
from anarchon.run import Tracking
from anarchon_celery.beat_sender import Sender, shown_schedule
from anarchon_celery.broker import Broker
from anarchon_celery.entries import Entry
from anarchon_celery.own_options import NEXT


class CeleryPublisher:
    """Sends the message of one entry; all entries of a scheduler share sender and broker."""

    def __init__(self, sender: Sender, entry: Entry, broker: Broker) -> None:
        self.task = entry.task
        self.sends_to = broker.address
        self._sender = sender
        self._app = sender.app
        self._entry = entry
        self._schedule = shown_schedule(sender.app, entry.written, entry.schedule)
        self._broker = broker
        self._failed = ""

    def __repr__(self) -> str:
        return f"<CeleryPublisher {self._entry.name}: {self.task}>"

    @functools.cached_property
    def way(self) -> Broker | None:
        """The way on which its messages go together with others, decided when first asked for.

        What runs here has run, and an ``apply_async`` of the task's own is to hear of a failure
        while it is called: neither can be taken back at the end of a flight.
        """
        task = self._app.tasks.get(self.task)
        if task is None or not (self._app.conf.task_always_eager or _sends_by_itself(task)):
            return self._broker
        return None

    def publish(self, ctx: RunContext) -> str:
        """Send the message and return its id, once the broker has confirmed it."""
        task: Any = self._app.tasks.get(self.task)
        message = self._message(ctx, task)
        if task is not None and self._app.conf.task_always_eager:
            return self._run_here(message)
        with self._broker.producer() as producer, _nobody_awaits_the_result(self._app):
            try:
                sent = self._sender.send(message, producer, quietly=self._failed == ctx.token)
            except Exception:
                self._failed = ctx.token
                raise
        return _id_of(sent)

    def _message(self, ctx: RunContext, task: Any) -> ScheduleEntry:
        """Return a copy of the entry, which whoever is on the way may change."""
        entry = self._entry
        return ScheduleEntry(
            name=entry.name,
            task=entry.task,
            schedule=self._schedule,
            args=list(entry.args),  # type: ignore[arg-type]  # beat makes a list of it too
            kwargs=dict(entry.kwargs),
            options=self._options(ctx, task),
            last_run_at=ctx.slot,
            app=self._app,
        )

    def _options(self, ctx: RunContext, task: Any) -> dict[str, Any]:
        options = dict(self._entry.options)
        headers = options.get("headers")
        # Kombu tries again for as long as its policy says; here the engine does, and knows
        # when it is too late.
        options.pop("retry_policy", None)
        options["retry"] = False
        options["headers"] = {
            **(copy.deepcopy(dict(headers)) if isinstance(headers, Mapping) else {}),
            "celery_beat_task": True,
            "periodic_task_name": self._entry.name,
            HEADER: mapping_of(ctx),
        }
        if "expires" in options:
            options["expires"] = self._from_slot(ctx, options["expires"])
        if ctx.tracking is not None:
            self._bound(options, ctx.tracking, task)
        return options

    def _from_slot(self, ctx: RunContext, expires: Any) -> Any:
        if expires == NEXT:
            return self._entry.schedule.next_after(ctx.slot)
        if isinstance(expires, int | float):
            # whoever takes a run over starts it anew: its message is not old already
            is_anew = ctx.tracking is not None and ctx.attempt > 1
            return (self._app.now() if is_anew else ctx.slot) + timedelta(seconds=expires)
        return expires

    def _bound(self, options: dict[str, Any], tracking: Tracking, task: Any) -> None:
        """Let the message of a tracked run expire, and its work end, when it must at the latest."""
        expires = options["expires"] if "expires" in options else getattr(task, "expires", None)
        ends = [tracking.start_by, self._moment(expires)]
        options["expires"] = min(moment for moment in ends if moment is not None)
        if tracking.timeout is None:
            return
        hard = self._smaller("time_limit", options, task, tracking.timeout + tracking.lease / 3)
        soft = self._smaller("soft_time_limit", options, task, tracking.timeout)
        options.update(time_limit=hard, soft_time_limit=min(soft, hard))

    def _moment(self, expires: Any) -> datetime | None:
        if isinstance(expires, int | float):
            # the task's own, which Celery counts from the send
            expires = self._app.now() + timedelta(seconds=expires)
        elif isinstance(expires, str):
            expires = maybe_iso8601(expires)
        return None if expires is None else maybe_make_aware(expires)

    def _smaller(self, name: str, options: Mapping[str, Any], task: Any, limit: timedelta) -> float:
        # a message's limit takes the place of the task's and of the app's
        own = options.get(name) or getattr(task, name, None) or self._app.conf.get(f"task_{name}")
        return min(own, limit.total_seconds()) if own else limit.total_seconds()

    def _run_here(self, message: ScheduleEntry) -> str:
        """Run the task in this process; however it ends, it has run and is not tried again."""
        try:
            return _id_of(self._sender.send(message, None, quietly=False))
        except Exception:
            # its line is in stock beat's log
            return uuid()


def _sends_by_itself(task: Any) -> bool:
    # where it comes from, not what it is: instrumentation replaces what Task has
    owners = (owner for owner in (task, *type(task).__mro__) if "apply_async" in vars(owner))
    return next(owners) is not Task


def _id_of(sent: Any) -> str:
    # a task's own apply_async may return what it likes
    return str(getattr(sent, "id", None) or "")


@contextmanager
def _nobody_awaits_the_result(app: Any) -> Iterator[None]:
    """Keep the result backend out of a send: it would subscribe to a result nobody reads.

    With a Redis backend that costs two round trips a message, and with one that is away no
    message would be sent.
    """
    backend: Any = app.backend
    if backend.thread_safe:
        # then it is not this thread's own, and others may well await results
        yield
        return
    backend.on_task_call = _nothing
    try:
        yield
    finally:
        del backend.on_task_call


def _nothing(producer: object, task_id: str) -> dict[str, object]:
    return {}
