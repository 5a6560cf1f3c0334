"""The Celery project whose runs are tracked; its tasks write down that they began and ended.

With ``CLUSTER_EMBEDDED`` its workers run the schedule as well.
"""

import json
import os
import random
import threading
from pathlib import Path

from broker_name import find_broker_by  # type: ignore[import-not-found]
from celery import Celery
from celery._state import get_current_task
from celery.exceptions import Retry
from celery.signals import after_task_publish, task_received, worker_ready
from going_out import when_sent  # type: ignore[import-not-found]
from notes import note, tell_stalls  # type: ignore[import-not-found]

from anarchon_celery import current_run, install

#: Seconds. The longest work outlives a lease, and what the broker waits for an acknowledgement.
SHORT, MIDDLING, LONG = (0.1, 0.8), (0.5, 3.5), (3.5, 6.0)
COUNTDOWN = (0.0, 2.0)
_RETRIES, _FAILS = 0.5, 0.03
#: Forked processes must not all draw alike.
_chance = random.SystemRandom()

if os.environ.get("CLUSTER_INSTANCE"):
    tell_stalls()


if os.environ.get("CLUSTER_BROKER_AT"):
    find_broker_by(os.environ["CLUSTER_BROKER_AT"])


def entry(task, every, work, **ours):
    anarchon = {"track": True, "lease": "3s", "heartbeat": "1s", "start_within": "8s"}
    anarchon |= {"on_store_error": "retry", "history_limit": 5000, **ours}
    return {"task": task, "schedule": every, "args": work, "options": {"anarchon": anarchon}}


app = Celery("followed")
app.conf.update(
    broker_url=os.environ.get("CLUSTER_BROKER", "memory://"),
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    # what was taken from the queue and not acknowledged is delivered again soon, also what a
    # worker is at work on
    broker_transport_options={
        "visibility_timeout": 4,
        "unacked_restore_interval": 1,
        "unacked_restore_throttle": 1,
        "unacked_mutex_expire": 3,
    },
    anarchon_store=os.environ.get("CLUSTER_STORE", "memory://"),
    task_ignore_result=True,
    result_expires=None,
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    beat_schedule={
        "short-skip": entry("followed.work", 2.0, SHORT, overlap="skip"),
        "long-skip": entry("followed.work", 3.0, LONG, overlap="skip"),
        "retried-skip": entry("followed.retried", 4.0, SHORT, overlap="skip"),
        "retried-allow": entry("followed.retried", 4.0, MIDDLING, overlap="allow"),
        "late-ack-allow": entry("followed.late_ack", 4.0, MIDDLING, overlap="allow"),
        "late-ack-skip": entry("followed.late_ack", 10.0, LONG, overlap="skip"),
        "once-allow": entry("followed.work", 5.0, MIDDLING, overlap="allow", max_attempts=1),
        "unasked-allow": entry(
            "followed.work", 5.0, MIDDLING, overlap="allow", on_store_error="run"
        ),
    },
)
install(app, embedded=bool(os.environ.get("CLUSTER_EMBEDDED")))


@app.task(name="followed.work", bind=True)
def work(self, *seconds):
    do(self, seconds)


@app.task(name="followed.late_ack", bind=True, acks_late=True, reject_on_worker_lost=True)
def late_ack(self, *seconds):
    """Leave the message with the broker until the work is done."""
    do(self, seconds)


@app.task(name="followed.retried", bind=True, max_retries=2)
def retried(self, *seconds):
    """Give up now and then, to go on as a retry."""
    do(self, seconds, _RETRIES if self.request.retries < 2 else 0.0)


def do(task, seconds, retries=0.0):
    run = current_run()
    assert run is not None, "what is sent here is ours"
    said = {
        "job": run.job,
        "slot": run.slot.isoformat(),
        "attempt": run.attempt,
        "fence": run.fence,
        "token": run.token,
        "retry": task.request.retries,
        "message": task.request.id,
        "pid": os.getpid(),
    }
    note("began", **said)
    outcome = "failed"
    try:
        threading.Event().wait(_chance.uniform(*seconds))
        if _chance.random() < retries:
            raise task.retry(countdown=_chance.uniform(*COUNTDOWN))
        if _chance.random() < _FAILS:
            raise ValueError("fails now and then")
        outcome = "success"
    except Retry:
        outcome = "retried"
        raise
    finally:
        note("ended", outcome=outcome, **said)


def tell_sent(headers=None, **_):
    """Write down what an instance has sent; a task sends but retries and copies of itself."""
    if get_current_task() is None:
        run = headers["anarchon"]
        said = {key: run[key] for key in ("job", "slot", "attempt", "fence", "token")}
        message = headers["id"]
        when_sent(lambda: note("sent", message=message, **said))


for sender in ("followed.work", "followed.late_ack", "followed.retried"):
    after_task_publish.connect(tell_sent, sender=sender)


@task_received.connect
def tell_received(request=None, **_):
    note("received", message=request.id)


@worker_ready.connect
def tell_ready(**_):
    ready = json.dumps({"pid": os.getpid(), "ready": True})
    Path(os.environ["CLUSTER_HEALTH"]).write_text(ready)
