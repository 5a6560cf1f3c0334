"""May the work of a delivery start? What is done where the store refuses, or does not say."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta

from anarchon.errors import AnarchonError, StoreError
from anarchon.run import OnStoreError
from anarchon.worker.errands import Errand
from anarchon.worker.tracker import Delivery, Tracker

_SHORTEST_WAIT = 1.0


class NotToStart(AnarchonError):
    """The work of a delivery is not to be started; the log has said why."""


def begin(
    tracker: Tracker,
    delivery: Delivery,
    said: str,
    log: logging.Logger,
    send_later: Callable[[timedelta], object] | None,
) -> Errand[bool] | None:
    """Return where the work may start; the question, if it starts without an answer to that.

    ``said`` names the message in the log. ``send_later`` sends a copy of it that comes after so
    long, ``None`` where none can be sent. Raises ``NotToStart``.
    """
    asked = tracker.begin(delivery)
    try:
        may_begin = asked.wait(max(_SHORTEST_WAIT, delivery.heartbeat.total_seconds()))
    except StoreError as error:
        if send_later is not None and delivery.run.on_store_error is OnStoreError.RETRY:
            _put_off(delivery, said, log, send_later, asked, error)
        log.warning(
            "started without the store's word: %s: %s; asked on while it works", said, error
        )
        # one that was refused for good is asked anew: the store may be mended meanwhile
        return tracker.begin(delivery) if asked.is_answered else asked
    if not may_begin:
        log.warning(
            "not started: %s: its run was given to somebody else or has ended, or this message"
            " has started already",
            said,
        )
        raise NotToStart("its run is not this message's to start")
    return None


def _put_off(
    delivery: Delivery,
    said: str,
    log: logging.Logger,
    send_later: Callable[[timedelta], object],
    asked: Errand[bool],
    error: StoreError,
) -> None:
    """Send a copy and raise ``NotToStart``; returns if none could be sent."""
    lease = delivery.lease
    try:
        send_later(lease)
    except Exception as failure:
        log.warning("no copy of %s could be sent: %r", said, failure)
        return
    asked.take_back()
    log.warning(
        "not started: %s: the store does not say whether it may: %s; a copy of the message comes"
        " in %.0f s",
        said,
        error,
        lease.total_seconds(),
    )
    raise NotToStart("a copy comes later")
