"""What the workers of a broker need to follow a published run to its end, whatever the broker.

A worker may be one process or many. Each process that runs tasks asks the store through a
`Tracker` of its own; one of them, the main process, keeps alive with `Renewals` whatever all
of them have begun. A `Delivery` is one delivery of a message to this worker. The rules are
``anarchon.tracked``'s.

Nothing here knows a broker, and nothing of it outlives a fork: the child starts anew.
"""

from anarchon.worker.ending import unsure, wait_for
from anarchon.worker.errands import Errand
from anarchon.worker.renewals import Renewals
from anarchon.worker.starting import NotToStart, begin
from anarchon.worker.tracker import Delivery, Tracker

__all__ = [
    "Delivery",
    "Errand",
    "NotToStart",
    "Renewals",
    "Tracker",
    "begin",
    "unsure",
    "wait_for",
]
