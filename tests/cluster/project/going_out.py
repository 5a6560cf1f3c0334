"""Knows when the broker has a message: several go together, and are told of before they do."""

import os
import signal
from contextlib import contextmanager

from anarchon_celery.broker import Broker

_made: list = []  # type: ignore[type-arg]
#: The earlier commit sends one message after the other.
_together = getattr(Broker, "together", None)
_is_gathering = False


def when_sent(tell):
    """Call back when the broker has the message that is told of just now; never if it has not."""
    if _is_gathering:
        _made.append(tell)
    else:
        tell()


@contextmanager
def _told_together(broker):
    global _is_gathering
    assert _together is not None
    _is_gathering = True
    try:
        with _together(broker) as piece:
            yield piece
        if _made and os.environ.get("CLUSTER_DIES_AFTER_SEND"):
            # where it hurts most: the broker has the messages, and the store does not know
            os.kill(os.getpid(), signal.SIGKILL)
        for tell in _made:
            tell()
    finally:
        _made.clear()
        _is_gathering = False


if _together is not None:
    Broker.together = _told_together  # type: ignore[method-assign,assignment]
