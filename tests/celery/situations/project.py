"""The project that all processes of a situation run; its entries and troubles come from the test.

What its tasks do is told by a file that only grows, one line a note.
"""

import json
import os
import signal
import threading
from datetime import datetime
from typing import Any

from celery import Celery, signals

from anarchon import Every
from anarchon.clock import rfc3339
from anarchon_celery import current_run, install
from tests.cluster.project.going_out import when_sent

NOTES = os.environ.get("SITUATION_NOTES", os.devnull)


def _given(name: str) -> Any:
    return json.loads(os.environ.get(name, "{}"))


def _entries() -> dict[str, Any]:
    entries: dict[str, Any] = _given("SITUATION_ENTRIES")
    for entry in entries.values():
        if isinstance(entry["schedule"], dict):
            anchor = datetime.fromisoformat(entry["schedule"]["anchor"])
            entry["schedule"] = Every(entry["schedule"]["interval"], anchor=anchor)
    return entries


app = Celery("situated", broker=os.environ.get("SITUATION_BROKER"), set_as_current=False)
app.conf.update(
    beat_schedule=_entries(),
    broker_connection_retry_on_startup=True,
    result_expires=None,
    task_ignore_result=True,
    worker_prefetch_multiplier=1,
    **_given("SITUATION_SETTINGS"),
)
if "SITUATION_IS_PLAIN" not in os.environ:
    install(app)


def note(what: str, **said: Any) -> None:
    """Write one line; whoever is killed has written it or not."""
    file = os.open(NOTES, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(file, json.dumps({"what": what, "pid": os.getpid(), **said}).encode() + b"\n")
    os.close(file)


class Trouble:
    """What this process is to come to once, when it has sent a message, or is about to."""

    def __init__(self) -> None:
        self._moment, _, how = os.environ.get("SITUATION_TROUBLE", "").partition(" ")
        self._signal = {"frozen": signal.SIGSTOP, "killed": signal.SIGKILL}.get(how)

    def strike(self, moment: str, headers: dict[str, Any]) -> None:
        if self._signal is None or moment != self._moment:
            return
        trouble, self._signal = self._signal, None
        run = headers["anarchon"]
        note(moment, job=run["job"], slot=run["slot"], attempt=run["attempt"])
        os.kill(os.getpid(), trouble)


_trouble = Trouble()


@signals.before_task_publish.connect
def _claimed(headers: dict[str, Any], **_: Any) -> None:
    _trouble.strike("claimed", headers)


@signals.after_task_publish.connect
def _sent(headers: dict[str, Any], **_: Any) -> None:
    when_sent(lambda: _trouble.strike("sent", headers))


@app.task(name="situated.work", bind=True)
def work(self: Any, what: str = "nothing") -> None:
    """Write down for which run this is, then do it."""
    _work(self, what)


@app.task(name="situated.late_ack", bind=True, acks_late=True)
def late_ack(self: Any, what: str = "nothing") -> None:
    """Do the same, but leave the message in the broker until it is done."""
    _work(self, what)


def _work(task: Any, what: str) -> None:
    run, job = current_run(), task.request.headers["periodic_task_name"]
    is_first = not any(line["what"] == "ran" and line["job"] == job for line in _notes())
    note(
        "ran",
        job=job,
        slot=None if run is None else rfc3339(run.slot),
        attempt=None if run is None else run.attempt,
        retries=task.request.retries,
        message=task.request.id,
    )
    if what == "hang" or (what == "hang-first" and is_first):
        _nap(60)
    elif what == "take-long-first" and is_first:
        _nap(6)
    elif what == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    elif what == "retry" and task.request.retries == 0:
        raise task.retry(countdown=0)
    note("done", job=job, message=task.request.id)


def _notes() -> list[dict[str, Any]]:
    with open(NOTES) as file:
        return [json.loads(line) for line in file]


def _nap(seconds: float) -> None:
    threading.Event().wait(seconds)


@signals.worker_ready.connect
def _tell_ready(**_: Any) -> None:
    note("ready")
