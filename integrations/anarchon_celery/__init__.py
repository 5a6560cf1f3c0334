"""Celery's periodic tasks without `celery beat`: any number of instances, one message a slot.

``scheduler_for(app)`` reads what `celery beat` would read and returns a scheduler of which
every instance may run. It may never start, stop or configure the app's own workers.
"""

from anarchon_celery.errors import InvalidEntries
from anarchon_celery.scheduling import scheduler_for
from anarchon_celery.settings import foreign_beat_scheduler

__all__ = ["InvalidEntries", "foreign_beat_scheduler", "scheduler_for"]
