"""The Celery project under test: an ordinary beat_schedule whose tasks write down that they ran."""

import json
import os
import time
from datetime import timedelta

from celery import Celery
from celery.schedules import crontab

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


@app.task(bind=True)
def note(self):
    run = self.request.headers["anarchon"]
    line = json.dumps({**run, "message": self.request.id, "at": time.time()}) + "\n"
    file = os.open(os.environ["CLUSTER_RECORDS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(file, line.encode())
    os.close(file)
