"""Periodic actors for Dramatiq without a scheduler process: any number of workers, one run a slot.

``AnarchonMiddleware`` on a broker lets its actors be ``periodic``, runs their schedules in
its workers, and follows tracked runs to their end; inside of an actor ``current_run()`` says
which run it is for. ``scheduler_for(broker)`` returns the scheduler for a process of its own.
"""

from anarchon_dramatiq.current import current_run
from anarchon_dramatiq.errors import InvalidPeriodic
from anarchon_dramatiq.middleware import AnarchonMiddleware
from anarchon_dramatiq.periodic import Periodic, at, cron, every
from anarchon_dramatiq.scheduling import schedule, scheduler_for

__all__ = [
    "AnarchonMiddleware",
    "InvalidPeriodic",
    "Periodic",
    "at",
    "cron",
    "current_run",
    "every",
    "schedule",
    "scheduler_for",
]
