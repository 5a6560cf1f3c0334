"""The end of a task that was begun for a tracked run, recorded by the process that knows it.

The process that ran the task tells how it ended, before it reports that to the main process.
Of a task that was lost with its process, ended by a hard limit or revoked, the main process
tells; where both do, the store keeps what it heard first. What nobody tells of (a message
that goes back to the broker, a worker that was killed) is left to its lease: the message
would not be started again, a takeover will be.
"""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from typing import Any

from celery import states
from celery.exceptions import Terminated

from anarchon.detail import detail_of, storable
from anarchon.events import shown
from anarchon.run import RunState
from anarchon.worker import Delivery, Errand, unsure, wait_for
from anarchon_celery.current import Started, started_of
from anarchon_celery.tracking_worker import WorkerTracking, log, tracking_of

_RETRIED = "_anarchon_retried"


def on_postrun(task: Any, state: str | None, retval: Any, **_: object) -> None:
    """Tell of an end in the process that ran the task."""
    tracking, started = tracking_of(task.app), started_of(task.request)
    if tracking is None or started is None or started.delivery is None:
        return
    delivery = started.delivery
    if started.limit is not None:
        started.limit.take_back()
    try:
        errand = _told(tracking, task, started, delivery, state, retval)
        if errand is not None:
            wait_for(errand, delivery, log)
    finally:
        tracking.eager.pop(delivery.nonce, None)
        tracking.over.discard(delivery.nonce)


def _told(
    tracking: WorkerTracking,
    task: Any,
    started: Started,
    delivery: Delivery,
    state: str | None,
    retval: Any,
) -> Errand[bool] | None:
    """Tell the store of an end; ``None`` where somebody else will, or nobody can."""
    if state == states.RETRY:
        retry, delay = _retry_of(task, retval)
        return tracking.tracker.wait_for_retry(delivery, retry, delay, begun=started.begun)
    ended = _ended(task, state, retval)
    if ended is None and state is None:
        ended = _aborted(tracking)
    if ended is None:
        return None
    if started.begun is not None:
        ended = ended[0], unsure(ended[1])
    return tracking.tracker.finish(delivery, *ended, begun=started.begun)


def _ended(task: Any, state: str | None, retval: Any) -> tuple[RunState, str | None] | None:
    if state == states.SUCCESS:
        keeps = getattr(task, "anarchon_result", False)
        return RunState.SUCCESS, detail_of(retval) if keeps else None
    if state == states.IGNORED:
        return RunState.SUCCESS, "ignored: the task raised Ignore"
    if state == states.REJECTED:
        if retval.requeue and task.acks_late:
            return None  # the message goes back; without acks_late it is gone
        return RunState.FAILED, storable(f"rejected: {shown(retval.reason)}")
    if state is None:
        return None
    return RunState.FAILED, storable(shown(retval))


def _aborted(tracking: WorkerTracking) -> tuple[RunState, str | None] | None:
    """Judge a body that was left by what is no outcome; most of it is told of by others."""
    error = sys.exc_info()[1]
    exits = isinstance(error, SystemExit | KeyboardInterrupt) and not tracking.is_child
    if exits or isinstance(error, Exception):
        return RunState.FAILED, storable(shown(error))
    return None


def _retry_of(task: Any, retry: Any) -> tuple[int, timedelta]:
    """Return the number of the message that was sent for a retry, and how long it is held back."""
    when = getattr(retry, "when", None) or 0
    if isinstance(when, datetime):
        delay = when - (task.app.now() if when.tzinfo else task.app.now().replace(tzinfo=None))
    else:
        delay = timedelta(seconds=float(when))
    return (task.request.retries or 0) + 1, max(delay, timedelta(0))


def settle_lost(request: Any, error: BaseException) -> None:
    """Tell in the main process of a task whose own process did not come to."""
    tracking = tracking_of(request.app)
    delivery = None if tracking is None else tracking.delivery_received(request)
    if tracking is None or delivery is None or isinstance(error, Terminated):
        return  # what was terminated is told of as revoked
    if not request._anarchon_returned and _RETRIED not in vars(request._context):
        _settle(tracking, delivery, shown(error))


def on_revoked(sender: Any, request: Any, terminated: bool, expired: bool, **_: object) -> None:
    """Tell in the main process of a task that was taken back."""
    tracking = tracking_of(sender.app)
    # one that has expired ends as that in the store
    if tracking is None or expired:
        return
    # one that was revoked before it came was never received
    delivery = _delivery(tracking, request, received=False)
    if delivery is not None:
        _settle(tracking, delivery, "revoked while it ran" if terminated else "revoked")


def on_retry(sender: Any, request: Any, reason: Any = None, **_: object) -> None:
    """Tell in the main process of a task that it sends again, its own process being lost."""
    tracking = tracking_of(sender.app)
    if tracking is None or reason is None or started_of(request) is not None:
        return
    vars(request)[_RETRIED] = True
    delivery = _delivery(tracking, request, received=True)
    if delivery is not None:
        delay = timedelta(seconds=float(reason.when or 0))
        begun = tracking.tracker.begin(delivery)
        tracking.tracker.wait_for_retry(delivery, delivery.retry + 1, delay, begun=begun)


def _delivery(tracking: WorkerTracking, request: Any, *, received: bool) -> Delivery | None:
    run = tracking.run_of(request)
    if run is None or not run.is_tracked:
        return None
    return tracking.delivery_of(run, request, received=received)


def _settle(tracking: WorkerTracking, delivery: Delivery, detail: str) -> None:
    # also what was lost before it asked: nobody will start that message any more
    begun = tracking.tracker.begin(delivery)
    tracking.tracker.finish(delivery, RunState.FAILED, storable(detail), begun=begun)
