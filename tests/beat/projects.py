"""Celery projects as they lie around; their brokers are in the process."""

from celery import Celery

app = Celery("shop", broker="memory://", set_as_current=False)
app.conf.beat_schedule = {
    "add": {"task": "shop.add", "schedule": 1.0, "args": (1, 2)},
    "hourly": {"task": "shop.add", "schedule": 3600},
}
app.conf.anarchon_store = "memory://"

in_a_database = Celery("shop", broker="memory://", set_as_current=False)
in_a_database.conf.beat_scheduler = "django_celery_beat.schedulers:DatabaseScheduler"
in_a_database.conf.anarchon_store = "memory://"
