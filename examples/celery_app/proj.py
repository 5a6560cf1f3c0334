"""A Celery project with an ordinary schedule; nothing in it knows of anarchon but one setting."""

import json
import os
from pathlib import Path

from celery import Celery
from celery.schedules import crontab

# Folders in place of a broker, so that the example needs no server. A real broker goes here.
BROKER = os.environ.get("BROKER", "filesystem://")
FOLDER = Path(os.environ.get("FOLDER", "celery_app_data")).resolve()
RECORDS = FOLDER / "records.jsonl"

app = Celery("proj", broker=BROKER)
app.conf.timezone = "Europe/Athens"
# Read by anarchon-beat. Left out, a Redis broker or result backend would be the store.
app.conf.anarchon_store = os.environ.get("STORE", f"sqlite:///{FOLDER / 'anarchon.db'}")

if BROKER == "filesystem://":
    messages, control = FOLDER / "messages", FOLDER / "control"
    messages.mkdir(parents=True, exist_ok=True)
    control.mkdir(exist_ok=True)
    app.conf.broker_transport_options = {
        "data_folder_in": str(messages),
        "data_folder_out": str(messages),
        "control_folder": str(control),
    }

app.conf.beat_schedule = {
    "sample-every-second": {
        "task": "proj.sample",
        "schedule": 1.0,
        "args": ("sensor-1",),
    },
    "report-on-weekdays": {
        "task": "proj.report",
        "schedule": crontab(minute=30, hour=7, day_of_week="mon-fri"),
        "options": {"expires": 3600},
    },
}


@app.task(bind=True)
def sample(self, sensor: str) -> None:
    record(self.request, sensor)


@app.task(bind=True)
def report(self) -> None:
    record(self.request, "report")


def record(request, what: str) -> None:
    """Note which slot this message is for; the header tells."""
    headers = request.headers or {}
    run = headers.get("anarchon") or {}
    with RECORDS.open("a") as file:
        file.write(json.dumps({"id": request.id, "what": what, **run}) + "\n")
