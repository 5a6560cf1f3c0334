"""The start of a task that was sent for a run: may it begin?"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from celery.exceptions import Ignore

from anarchon.worker import Delivery, Errand, NotToStart, begin
from anarchon_celery.current import Started, note, started_of
from anarchon_celery.tracking_worker import WorkerTracking, log, tracking_of


def start(task: Any) -> None:
    """Let a task of ours begin, or raise ``Ignore``; does nothing for others, nor twice."""
    tracking, request = tracking_of(task.app), task.request
    if tracking is None or started_of(request) is not None:
        return
    run = tracking.run_of(request)
    if run is None:
        return
    started = Started(run)
    if run.is_tracked:
        delivery = tracking.delivery_of(run, request, received=False)
        assert delivery is not None, "made where there is none"
        started.begun = _begin(tracking, task, delivery)
        started.delivery = delivery
        # it was about the start, and a retry would inherit it: that has a deadline of its own
        request.expires = None
        _keep(tracking, task, started, delivery)
    note(request, started)


def _begin(tracking: WorkerTracking, task: Any, delivery: Delivery) -> Errand[bool] | None:
    def send_later(wait: timedelta) -> None:
        copy = task.signature_from_request(
            task.request, countdown=wait.total_seconds(), retries=delivery.retry
        )
        copy.apply_async()

    said = f"{delivery.run.line()} retry={delivery.retry} task={task.name}[{delivery.message}]"
    can_wait = None if task.request.is_eager else send_later
    try:
        return begin(tracking.tracker, delivery, said, log, can_wait)
    except NotToStart:
        raise Ignore from None


def _keep(tracking: WorkerTracking, task: Any, started: Started, delivery: Delivery) -> None:
    """See to what neither a main process nor the pool will do for this task."""
    request = task.request
    if request.is_eager:
        tracking.eager[delivery.nonce] = delivery.run
        tracking.keep_alive()
        return
    if tracking.ignores_limits:
        limits = (*(request.timelimit or ()), task.time_limit, task.soft_time_limit)
        limit = next((limit for limit in limits if limit), None)
        if limit is not None:
            started.limit = tracking.tracker.finish_after(
                limit,
                delivery,
                f"took longer than its time limit of {limit:g} s, by which this pool ends no task",
                lambda: tracking.over.add(delivery.nonce),
            )
