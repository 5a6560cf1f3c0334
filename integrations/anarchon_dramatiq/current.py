"""The run that an actor is working on."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from anarchon.message import PublishedRun
from anarchon.worker import Delivery, Errand

_STARTED = "_anarchon_started"


@dataclass(eq=False, slots=True)
class Started:
    """A message that was started for a run; ``delivery`` is there if the run is tracked.

    ``begun`` is the question whether it may, where it was started without an answer. ``retry``
    is the delay in milliseconds of the message that was sent for a retry.
    """

    run: PublishedRun
    delivery: Delivery | None = None
    begun: Errand[bool] | None = None
    retry: int | None = None
    is_told: bool = False


#: An actor that is a coroutine has its worker thread's.
_current: ContextVar[Started | None] = ContextVar("anarchon_started", default=None)


def current_run() -> PublishedRun | None:
    """Return slot, attempt, fence and the like of the run that this actor was sent for.

    ``None`` outside of an actor, and in one that no schedule of ours has sent.
    """
    started = _current.get()
    return None if started is None else started.run


def current() -> Started | None:
    """Return what this thread's message was started for."""
    return _current.get()


def note(message: Any, started: Started | None) -> None:
    """Remember what a message was started for, in this thread."""
    vars(message)[_STARTED] = started
    _current.set(started)


def taken(message: Any) -> Started | None:
    """Return what a message was started for, once."""
    started: Started | None = vars(message).pop(_STARTED, None)
    return started
