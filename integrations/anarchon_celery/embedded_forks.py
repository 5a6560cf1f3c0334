"""Locks of Celery's that a pool child must not inherit as held.

A scheduler that publishes from a thread of the worker's main process passes through kombu's
cached properties, each of which has a lock for all threads, through the locks of signals, and
through those that a `task-sent` event is sent under: the dispatcher's is held while the broker
is spoken to. A child that is forked in such a moment would have it held by a thread that it
does not have, and wait for it for ever. In a child only the thread that forked goes on, so any
lock may be made anew there.
"""

from __future__ import annotations

import inspect
import os
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Any

from celery import Celery
from celery.utils.dispatch import Signal
from kombu.utils.objects import cached_property

_properties: list[Any] = []
_signals: list[Any] = []
_apps: weakref.WeakSet[Celery] = weakref.WeakSet()


def forget_locks_in_children(app: Celery) -> None:
    """Give what an app publishes through a new lock in each child from now on."""
    if not _properties:
        os.register_at_fork(after_in_child=_renew)
    _apps.add(app)
    found = [each for module in _modules() for each in list(vars(module).values())]
    classes = {each for each in found if inspect.isclass(each)}
    _properties[:] = [
        each
        for cls in classes
        for each in list(vars(cls).values())
        if isinstance(each, cached_property)
    ]
    _signals[:] = [each for each in found if isinstance(each, Signal)]


def _modules() -> list[Any]:
    return [
        module
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] in ("celery", "kombu")
    ]


def _renew() -> None:
    for each in _properties:
        each.lock = threading.RLock()
    for each in _signals:
        each.lock = threading.Lock()
    for app in _apps:
        for each in _event_parts(app):
            each.mutex = threading.Lock()


def _event_parts(app: Any) -> Iterator[Any]:
    """Return what a `task-sent` event is made with, as far as it has been made already."""
    yield app.clock
    amqp = vars(app).get("amqp")
    if amqp is not None and "_event_dispatcher" in vars(amqp):
        yield amqp._event_dispatcher
