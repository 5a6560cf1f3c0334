"""What the main process hears of a task that cannot tell by itself how it ended."""

from __future__ import annotations

from typing import Any

from celery.exceptions import TimeLimitExceeded
from celery.worker.request import Request
from kombu.utils.imports import symbol_by_name

from anarchon_celery.tracking_end import settle_lost


class _TrackedRequest:
    """Goes before a task's class of requests; each is one delivery.

    What Celery does with it may raise, above all where its result backend is away; the store
    is told all the same.
    """

    #: Whether the broker has its message again.
    _anarchon_returned = False

    def on_failure(
        self, exc_info: Any, send_failed_event: bool = True, return_ok: bool = False
    ) -> None:
        """Tell of a process that was lost; one that returned a failure has told of it."""
        try:
            super().on_failure(exc_info, send_failed_event, return_ok)  # type: ignore[misc]
        finally:
            if not return_ok:
                settle_lost(self, getattr(exc_info.exception, "exc", exc_info.exception))

    def on_timeout(self, soft: bool, timeout: float) -> None:
        """Tell of a hard limit; of a soft one the task itself is told."""
        try:
            super().on_timeout(soft, timeout)  # type: ignore[misc]
        finally:
            if not soft:
                settle_lost(self, TimeLimitExceeded(timeout))

    def reject(self, requeue: bool = False) -> None:
        """Remember whether the message went back."""
        if not self.acknowledged:  # type: ignore[attr-defined]
            self._anarchon_returned = requeue
        super().reject(requeue)  # type: ignore[misc]


def tracked(base: Any) -> Any:
    """Return a class of requests that tells of what was lost, made of a class or its name."""
    cls: type[Request] = symbol_by_name(base)
    if issubclass(cls, _TrackedRequest):
        return cls
    return type(cls.__name__, (_TrackedRequest, cls), {"__module__": cls.__module__})
