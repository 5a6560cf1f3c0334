"""When a job is due: schedules that yield slots, the same ones on every instance.

A schedule is a value. It never asks a clock, keeps no state between two questions, and
answers from nothing but its own definition and the time zone data; so two instances that
were given the same text compute the same slots. `Polled` is the exception: it names no slots,
and the store has to know the one before.
"""

from anarchon.schedules.cron import Cron, CronSets
from anarchon.schedules.interval import Every
from anarchon.schedules.once import At
from anarchon.schedules.polled import Polled
from anarchon.schedules.schedule import Schedule

__all__ = ["At", "Cron", "CronSets", "Every", "Polled", "Schedule"]
