"""The Celery project under test: an ordinary beat_schedule whose tasks write down that they ran."""

import json
import os
from datetime import timedelta

from celery import Celery
from celery.schedules import crontab
from celery.signals import after_task_publish, before_task_publish
from going_out import when_sent  # type: ignore[import-not-found]
from notes import boot, note, tell_stalls  # type: ignore[import-not-found]

if os.environ.get("CLUSTER_INSTANCE"):
    tell_stalls()

SHORT_LEASE = {"anarchon": {"lease": "3s", "heartbeat": "1s"}}


def entries(claims_only):
    """Return the schedule; a store without leases takes no option about them."""
    options = {} if claims_only else SHORT_LEASE
    two = timedelta(seconds=2)
    return {
        "each-second": {"task": "proj.work", "schedule": 1.0, "options": options},
        "each-two-seconds": {"task": "proj.work", "schedule": two, "options": options},
        "each-minute": {"task": "proj.work", "schedule": crontab(), "options": options},
    }


app = Celery("proj")
app.conf.update(
    broker_url=os.environ.get("CLUSTER_BROKER", "memory://"),
    broker_transport_options=json.loads(os.environ.get("CLUSTER_BROKER_OPTIONS", "{}")),
    broker_connection_retry_on_startup=True,
    anarchon_store=os.environ.get("CLUSTER_STORE", "memory://"),
    task_ignore_result=True,
    # or there would be a task of Celery's own at 04:00 UTC, which writes nothing down
    result_expires=None,
    worker_hijack_root_logger=False,
    beat_schedule=entries(bool(os.environ.get("CLUSTER_CLAIMS_ONLY"))),
)


# of our task alone: who only reads this file may publish others
@before_task_publish.connect(sender="proj.work")
def say_who_sends_it(headers=None, **_):
    """Let the message tell when it was sent, and by whom."""
    by = os.environ.get("CLUSTER_INSTANCE", "")
    headers["anarchon"] = {**headers["anarchon"], "sent": boot(), "by": by}


@after_task_publish.connect(sender="proj.work")
def say_that_it_is_sent(headers=None, **_):
    message = headers["id"]
    when_sent(lambda: note("sent", message=message))


@app.task(bind=True)
def work(self):
    """Write down who was sent, when, and as which message."""
    note("message", message=self.request.id, **{**self.request.headers["anarchon"], "at": boot()})
