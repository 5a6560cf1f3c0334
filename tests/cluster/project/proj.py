"""The Celery project under test: an ordinary beat_schedule whose tasks write down that they ran."""

import json
import os
import signal
import time
from datetime import timedelta

from celery import Celery
from celery.schedules import crontab
from celery.signals import after_task_publish

app = Celery("proj")
app.conf.update(
    broker_url=os.environ["CLUSTER_BROKER"],
    broker_transport_options=json.loads(os.environ.get("CLUSTER_BROKER_OPTIONS", "{}")),
    broker_connection_retry_on_startup=True,
    task_ignore_result=True,
    worker_hijack_root_logger=False,
    beat_schedule={
        "each-second": {"task": "proj.note", "schedule": 1.0},
        "each-two-seconds": {"task": "proj.note", "schedule": timedelta(seconds=2)},
        "short-lease": {
            "task": "proj.note",
            "schedule": 1.0,
            "options": {"anarchon": {"lease": "3s"}},
        },
        "each-minute": {"task": "proj.note", "schedule": crontab()},
    },
)


@after_task_publish.connect
def die_if_told(**_):
    """Die where it hurts most: the broker has the message, and the store does not know."""
    if os.environ.get("CLUSTER_DIES_AFTER_SEND"):
        os.kill(os.getpid(), signal.SIGKILL)


@app.task(bind=True)
def note(self):
    run = self.request.headers["anarchon"]
    line = json.dumps({**run, "message": self.request.id, "at": time.time()}) + "\n"
    file = os.open(os.environ["CLUSTER_RECORDS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(file, line.encode())
    os.close(file)
