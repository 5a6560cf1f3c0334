"""Tracked runs in an app's workers: what is heard of them, from Celery's signals."""

from __future__ import annotations

from typing import Any

from celery import Celery, signals

from anarchon_celery.answering import answer_with
from anarchon_celery.tracking_end import on_postrun, on_retry, on_revoked
from anarchon_celery.tracking_fence import fence
from anarchon_celery.tracking_worker import begin_tracking, every_tracking, tracking_of


def connect(app: Celery) -> None:
    """Track the runs whose messages the workers of this app are given; harmless when repeated."""
    if not begin_tracking(app):
        return
    for signal, hear in (
        (signals.worker_init, _on_init),
        (signals.task_received, _on_received),
        (signals.task_postrun, on_postrun),
        (signals.task_revoked, on_revoked),
        (signals.task_retry, on_retry),
        (signals.worker_process_shutdown, _on_shutdown),
        (signals.worker_shutdown, _on_shutdown),
    ):
        signal.connect(hear, dispatch_uid=f"anarchon-{hear.__name__}")
    fence(app)


def _on_init(sender: Any, **_: object) -> None:
    tracking = tracking_of(sender.app)
    if tracking is not None:
        sender.app.finalize()
        fence(sender.app)
        tracking.start(sender)
        assert tracking.following is not None, "it has started"
        answer_with(sender.app, tracking.following)


def _on_received(sender: Any, request: Any, **_: object) -> None:
    tracking = tracking_of(request.app)
    if tracking is not None:
        tracking.receive(request)


def _on_shutdown(**_: object) -> None:
    for tracking in every_tracking():
        tracking.close()
