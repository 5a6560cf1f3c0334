"""The end of a delivery's work on its way to the store, and how long a worker waits for that."""

from __future__ import annotations

import logging

from anarchon.errors import StoreError
from anarchon.worker.errands import Errand
from anarchon.worker.tracker import Delivery

_UNSURE = "started without the store's word"


def unsure(detail: str | None) -> str:
    """Return what the history says of an end whose start nobody had allowed yet."""
    return _UNSURE if detail is None else f"{_UNSURE}; {detail}"


def wait_for(
    errand: Errand[bool], delivery: Delivery, log: logging.Logger, *, may_be_refused: bool = False
) -> None:
    """Wait until an end is recorded, for a lease: as long as that is renewed."""
    said = delivery.run.line()
    try:
        accepted = errand.wait(delivery.lease.total_seconds())
    except StoreError as error:
        log.warning("end not recorded: %s: %s; tried on while this process lives", said, error)
    else:
        if not accepted and not may_be_refused:
            log.warning("end refused: %s: the run is somebody else's by now", said)
