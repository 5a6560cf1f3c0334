"""Publishes a periodic task as `celery beat` would, with a note of the run in its headers."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from celery import Celery
from celery.beat import BeatLazyFunc
from celery.utils import uuid

from anarchon import RunContext
from anarchon.clock import rfc3339
from anarchon_celery.broker import Broker
from anarchon_celery.entries import Entry

#: Stock beat's logger: its lines are what people's log filters and searches know.
log = logging.getLogger("celery.beat")


class CeleryPublisher:
    """Sends the message of one entry; ``broker`` is shared by all entries of a scheduler."""

    def __init__(self, app: Celery, entry: Entry, broker: Broker) -> None:
        self.task = entry.task
        self.sends_to = broker.address
        self._app = app
        self._entry = entry
        self._broker = broker

    def __repr__(self) -> str:
        return f"<CeleryPublisher {self._entry.name}: {self.task}>"

    def publish(self, ctx: RunContext) -> str:
        """Send the message and return its id, once the broker has confirmed it."""
        entry = self._entry
        # Evaluated for each try: what they return should be as fresh as the message.
        args = [_evaluated(value) for value in entry.args]
        kwargs = {name: _evaluated(value) for name, value in entry.kwargs.items()}
        options = self._options(ctx)
        task: Any = self._app.tasks.get(self.task)
        if task is not None and self._app.conf.task_always_eager:
            return self._run_here(task, args, kwargs, options)
        with self._broker.producer() as producer, _nobody_awaits_the_result(self._app):
            self._say_sending()
            if task is not None:
                sent = task.apply_async(args, kwargs, producer=producer, **options)
            else:
                sent = self._app.send_task(self.task, args, kwargs, producer=producer, **options)
        return self._said_sent(sent)

    def _options(self, ctx: RunContext) -> dict[str, Any]:
        options = dict(self._entry.options)
        headers = options.get("headers")
        # Kombu tries again for as long as its policy says; here the engine does, and knows
        # when it is too late.
        options.pop("retry_policy", None)
        options["retry"] = False
        options["headers"] = {
            **(headers if isinstance(headers, Mapping) else {}),
            "celery_beat_task": True,
            "periodic_task_name": self._entry.name,
            "anarchon": {
                "job": ctx.job,
                "slot": rfc3339(ctx.slot),
                "attempt": ctx.attempt,
                "token": ctx.token,
                "fence": ctx.fence,
            },
        }
        return options

    def _run_here(
        self, task: Any, args: list[object], kwargs: dict[str, object], options: dict[str, Any]
    ) -> str:
        """Run the task in this process; however it ends, it has run and is not tried again."""
        self._say_sending()
        try:
            return self._said_sent(task.apply_async(args, kwargs, **options))
        except Exception as error:
            log.exception("Message Error: %s", error)
            return uuid()

    def _say_sending(self) -> None:
        log.info("Scheduler: Sending due task %s (%s)", self._entry.name, self.task)

    def _said_sent(self, sent: Any) -> str:
        # a task's own apply_async may return what it likes
        sent_id = str(getattr(sent, "id", None) or "")
        log.debug("%s sent. id->%s", self.task, sent_id)
        return sent_id


def _evaluated(value: object) -> object:
    return value() if isinstance(value, BeatLazyFunc) else value


@contextmanager
def _nobody_awaits_the_result(app: Celery) -> Iterator[None]:
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
