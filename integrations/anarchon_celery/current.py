"""The run that a task is working on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from celery._state import get_current_worker_task

from anarchon.message import PublishedRun
from anarchon.worker import Delivery, Errand

_STARTED = "_anarchon_started"


@dataclass(eq=False, slots=True)
class Started:
    """A task that was started for a run; ``delivery`` is there if the run is tracked.

    ``begun`` is the question whether it may, where it was started without an answer.
    ``limit`` waits for the end of its time where the pool does not.
    """

    run: PublishedRun
    delivery: Delivery | None = None
    begun: Errand[bool] | None = None
    limit: Errand[bool] | None = field(default=None, repr=False)


def current_run() -> PublishedRun | None:
    """Return slot, attempt, fence and the like of the run that this task was sent for.

    ``None`` outside of a task, and in one that no scheduler of ours has sent.
    """
    # a task that was called as a function works on what its caller does
    task: Any = get_current_worker_task()
    started = None if task is None else started_of(task.request)
    return None if started is None else started.run


def started_of(request: Any) -> Started | None:
    """Return what a request was started for."""
    started: Started | None = vars(request).get(_STARTED)
    return started


def note(request: Any, started: Started) -> None:
    """Remember what a request was started for."""
    vars(request)[_STARTED] = started
