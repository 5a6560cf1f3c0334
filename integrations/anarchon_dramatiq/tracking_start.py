"""The start of a message that was sent for a run: may its actor begin?

Whatever a hook raises beside ``SkipMessage`` is logged by dramatiq, and the actor runs. So
nothing here is left to that: a store that does not answer is dealt with as the message says.
"""

from __future__ import annotations

import secrets
from datetime import timedelta
from typing import Any

from dramatiq import Broker
from dramatiq.middleware import SkipMessage

from anarchon.clock import MILLISECOND
from anarchon.worker import Delivery, Errand, NotToStart, begin
from anarchon_dramatiq.ages import is_too_old, take_off
from anarchon_dramatiq.current import Started, note
from anarchon_dramatiq.tracking import Tracking, log


def start(tracking: Tracking, broker: Broker, message: Any) -> None:
    """Let a message of ours begin, or raise ``SkipMessage``; does nothing for others."""
    note(message, None)
    run = tracking.run_of(message)
    if run is None:
        return
    started = Started(run)
    if run.is_tracked:
        retry = message.options.get("retries") or 0
        delivery = Delivery(run, retry, secrets.token_hex(8), message.message_id)
        # of a retry that is too old the work has failed; of a first message nobody has begun it
        if not retry and is_too_old(broker, message, by_ours=False):
            raise _dropped(message, delivery)
        started.begun = _begin(tracking, broker, message, delivery)
        started.delivery = delivery
    note(message, started)


def _begin(
    tracking: Tracking, broker: Broker, message: Any, delivery: Delivery
) -> Errand[bool] | None:
    def send_later(wait: timedelta) -> None:
        broker.enqueue(message.copy(), delay=wait // MILLISECOND)

    said = _said(message, delivery)
    # before it is begun: the lease counts from there, and not from when we hear of it
    tracking.keep(delivery)
    try:
        begun = begin(tracking.tracker, delivery, said, log, send_later)
    except BaseException as error:
        tracking.leave(delivery)
        if isinstance(error, NotToStart):
            raise _skipped(message, str(error)) from None
        raise
    # the store has the last word on our limit, by its clock; without it there is AgeLimit's
    if begun is None or not is_too_old(broker, message, by_ours=True):
        take_off(message)
    return begun


def _said(message: Any, delivery: Delivery) -> str:
    return (
        f"{delivery.run.line()} retry={delivery.retry} actor={message.actor_name}"
        f"[{delivery.message}]"
    )


def _dropped(message: Any, delivery: Delivery) -> SkipMessage:
    """Do what AgeLimit is about to do; were it not to, the actor would run and nobody asked."""
    log.warning(
        "not started: %s: it is older than its max_age; its run expires at its start deadline",
        _said(message, delivery),
    )
    message.fail()
    return SkipMessage("Message age limit exceeded")


def _skipped(message: Any, why: str) -> SkipMessage:
    # for one that was skipped, a result of None would take the place of the true one
    message.options["store_results"] = False
    return SkipMessage(why)
