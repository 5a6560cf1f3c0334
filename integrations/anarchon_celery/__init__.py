"""Celery's periodic tasks without `celery beat`: any number of instances, one message a slot.

``scheduler_for(app)`` reads what `celery beat` would read and returns a scheduler of which
every instance may run. ``install(app)`` lets the app's workers follow tracked runs to their
end; inside of a task ``current_run()`` says which run it is for.
"""

from anarchon_celery.beside_tasks import periodic
from anarchon_celery.current import current_run
from anarchon_celery.errors import InvalidEntries
from anarchon_celery.installing import install
from anarchon_celery.scheduling import scheduler_for
from anarchon_celery.settings import foreign_beat_scheduler

__all__ = [
    "InvalidEntries",
    "current_run",
    "foreign_beat_scheduler",
    "install",
    "periodic",
    "scheduler_for",
]
