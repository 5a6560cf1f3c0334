"""Locks of Celery's that a pool child must not inherit as held.

A scheduler that publishes from a thread of the worker's main process passes through kombu's
cached properties, each of which has a lock for all threads. A child that is forked in such a
moment would have it held by a thread that it does not have, and wait for it for ever. In a
child only the thread that forked goes on, so any lock may be made anew there.
"""

from __future__ import annotations

import inspect
import os
import sys
import threading
from typing import Any

from kombu.utils.objects import cached_property

_properties: list[Any] = []


def forget_locks_in_children() -> None:
    """Give the cached properties of Celery's classes a new lock in each child from now on."""
    if not _properties:
        os.register_at_fork(after_in_child=_renew)
    _properties[:] = _found()


def _found() -> list[Any]:
    modules = [
        module
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] in ("celery", "kombu")
    ]
    classes = {
        each for module in modules for each in list(vars(module).values()) if inspect.isclass(each)
    }
    return [
        each
        for cls in classes
        for each in list(vars(cls).values())
        if isinstance(each, cached_property)
    ]


def _renew() -> None:
    for each in _properties:
        each.lock = threading.RLock()
