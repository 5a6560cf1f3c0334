"""Where the tasks of an app are watched: their ``before_start``, and their class of requests.

In ``before_start`` a task can still be kept from starting; it is wrapped once a class.
A tracer looks at a task's class when it is built, so the classes must be wrapped before a
pool has children. A registry of ours sees every task that is registered, whenever it is.
"""

from __future__ import annotations

import functools
from typing import Any

from celery import Task

from anarchon_celery.tracking_request import tracked
from anarchon_celery.tracking_start import start

_MARK = "_anarchon_fence"


class _Fenced:
    """Goes before an app's class of registries."""

    def __setitem__(self, name: str, task: Any) -> None:
        _wrap(type(task))
        super().__setitem__(name, task)  # type: ignore[misc]


def fence(app: Any) -> None:
    """Let every task of an app ask before it starts, those registered later too."""
    registry = app._tasks
    cls = type(registry)
    if not issubclass(cls, _Fenced):
        registry.__class__ = type(cls.__name__, (_Fenced, cls), {"__module__": cls.__module__})
    for task in list(registry.values()):
        _wrap(type(task))


def _wrap(cls: type[Task[Any, Any]]) -> None:
    if cls is Task:
        return
    cls.Request = tracked(cls.Request)
    original: Any = cls.before_start
    # one that was inherited from a wrapped class asks already
    if hasattr(original, _MARK):
        return

    @functools.wraps(original)
    def before_start(self: Any, task_id: Any, args: Any, kwargs: Any) -> Any:
        start(self)
        return original(self, task_id, args, kwargs)

    setattr(before_start, _MARK, True)
    cls.before_start = before_start  # type: ignore[method-assign]
