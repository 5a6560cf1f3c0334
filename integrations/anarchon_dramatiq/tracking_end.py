"""The end of a message that was begun for a tracked run, as the other middleware has left it.

By then Retries has had its say: it has sent the message again, has failed this one, or could
not send it, of which dramatiq only says a line in the log. What a shutdown ends for good is
left to its lease: the message will not be started again, a takeover will be.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from dramatiq import Broker
from dramatiq.middleware import Interrupt, Shutdown

from anarchon.detail import detail_of, storable
from anarchon.events import shown
from anarchon.run import RunState
from anarchon.worker import Errand, unsure, wait_for
from anarchon_dramatiq.current import Started, current, taken
from anarchon_dramatiq.tracking import Tracking, log

#: The option of an actor whose results the history is to keep.
KEEPS = "anarchon_result"


def on_enqueued(message: Any, delay: int | None) -> None:
    """Note that a message was sent for the retry of the one that this thread is at work on."""
    started = current()
    if started is None or started.delivery is None:
        return
    delivery = started.delivery
    if message.message_id == delivery.message and _retries(message) == delivery.retry + 1:
        started.retry = delay or 0


def end(
    tracking: Tracking, broker: Broker, message: Any, result: Any, error: BaseException | None
) -> None:
    """Tell the store how a message ended."""
    started = taken(message)
    if started is None or started.delivery is None:
        return
    try:
        _tell(tracking, broker, message, started, result, error)
    except Interrupt:
        # meant for an actor that has ended in this very moment: it would end ours instead,
        # and dramatiq would take the message for failed
        _tell(tracking, broker, message, started, result, error)
    finally:
        tracking.leave(started.delivery)


def end_skipped(tracking: Tracking, message: Any) -> None:
    """Tell the store of a message that another middleware has skipped after it was begun."""
    started = taken(message)
    if started is None or started.delivery is None:
        return
    try:
        why = getattr(message, "_exception", None)
        detail = "skipped by a middleware" + ("" if why is None else f": {why}")
        wait_for(_finish(tracking, started, RunState.FAILED, detail), started.delivery, log)
    finally:
        tracking.leave(started.delivery)


def _tell(
    tracking: Tracking,
    broker: Broker,
    message: Any,
    started: Started,
    result: Any,
    error: BaseException | None,
) -> None:
    delivery = started.delivery
    assert delivery is not None, "it is tracked"
    if started.is_told:
        return
    if error is not None and not message.failed and started.retry is not None:
        delay = timedelta(milliseconds=started.retry)
        errand = tracking.tracker.wait_for_retry(
            delivery, delivery.retry + 1, delay, begun=started.begun
        )
    elif isinstance(error, Shutdown):
        return
    else:
        has_retries = _retries(message) > delivery.retry
        ended = _ended(broker, message, result, error, has_retries=has_retries)
        errand = _finish(tracking, started, *ended)
    started.is_told = True
    # a retry that has begun already may well be refused its mark
    wait_for(errand, delivery, log, may_be_refused=started.retry is not None)


def _ended(
    broker: Broker, message: Any, result: Any, error: BaseException | None, *, has_retries: bool
) -> tuple[RunState, str | None]:
    if error is None and not message.failed:
        keeps = broker.get_actor(message.actor_name).options.get(KEEPS, False)
        return RunState.SUCCESS, detail_of(result) if keeps else None
    if error is None:
        return RunState.FAILED, "failed by a middleware"
    if not message.failed and has_retries:
        return RunState.FAILED, storable(f"its retry could not be sent: {shown(error)}")
    return RunState.FAILED, storable(shown(error))


def _finish(
    tracking: Tracking, started: Started, state: RunState, detail: str | None
) -> Errand[bool]:
    assert started.delivery is not None, "it is tracked"
    if started.begun is not None:
        detail = unsure(detail)
    return tracking.tracker.finish(started.delivery, state, detail, begun=started.begun)


def _retries(message: Any) -> int:
    retries: int | None = message.options.get("retries")
    return retries or 0
