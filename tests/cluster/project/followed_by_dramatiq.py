"""The Dramatiq project whose runs are tracked; its actors write down that they began and ended.

With ``CLUSTER_EMBEDDED`` its workers run the schedule as well. Its jobs are those of the Celery
project, but for what only Celery can do.
"""

import json
import os
import random
import threading
from pathlib import Path
from typing import Any

import dramatiq
from broker_name import find_broker_by  # type: ignore[import-not-found]
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.brokers.redis import RedisBroker
from dramatiq.common import dq_name
from dramatiq.errors import Retry
from dramatiq.middleware import CurrentMessage, Middleware
from dramatiq.worker import ConsumerThread, WorkerThread
from notes import note, tell_stalls  # type: ignore[import-not-found]

from anarchon_dramatiq import AnarchonMiddleware, current_run, every, schedule

#: Seconds. The longest work outlives a lease, and what the broker waits for a sign of life.
SHORT, MIDDLING, LONG = (0.1, 0.8), (0.5, 3.5), (3.5, 6.0)
COUNTDOWN = (0.0, 2.0)
_RETRIES, _FAILS = 0.5, 0.03
_chance = random.SystemRandom()

if os.environ.get("CLUSTER_INSTANCE"):
    tell_stalls()
    # each place is a machine of its own
    _runtime = Path(os.environ["CLUSTER_HEALTH"] + ".runtime")
    _runtime.mkdir(exist_ok=True)
    os.environ["XDG_RUNTIME_DIR"] = str(_runtime)
if os.environ.get("CLUSTER_BROKER_AT"):
    find_broker_by(os.environ["CLUSTER_BROKER_AT"])


def noting(broker):
    """Return a class of brokers whose consumers write down what they receive."""

    def receive(consumer):
        message = super(type(consumer), consumer).__next__()
        # what comes from there was held back, and goes to its own queue now
        if message is not None and consumer.queue_name != dq_name(message.queue_name):
            note("received", message=message.message_id)
        return message

    def consumer_class(self):
        consumer = broker.consumer_class.fget(self)
        return type(consumer.__name__, (consumer,), {"__next__": receive})

    return type(broker.__name__, (broker,), {"consumer_class": property(consumer_class)})


def make_broker(url):
    """Return a broker that gives again soon what a dead worker had, and a frozen one works on."""
    if url.startswith("amqp"):
        return noting(RabbitmqBroker)(url=f"{url}?heartbeat=4", confirm_delivery=True)
    return noting(RedisBroker)(url=url, heartbeat_timeout=4_000, maintenance_chance=1_000_000)


class Notes(Middleware):
    """Writes down what is sent, and that the worker is ready."""

    def after_enqueue(self, broker, message, delay):
        # workers send retries and copies, and what was held back
        is_workers = isinstance(threading.current_thread(), ConsumerThread | WorkerThread)
        run = message.options.get("anarchon")
        if run is not None and not is_workers:
            said = {key: run[key] for key in ("job", "slot", "attempt", "fence", "token")}
            note("sent", message=message.message_id, **said)

    def after_worker_boot(self, broker, worker):
        ready = json.dumps({"pid": os.getppid(), "ready": True})
        Path(os.environ["CLUSTER_HEALTH"]).write_text(ready)


broker = make_broker(os.environ.get("CLUSTER_BROKER", "redis://127.0.0.1:1/0"))
broker.add_middleware(CurrentMessage())
broker.add_middleware(Notes())
broker.add_middleware(
    AnarchonMiddleware(
        os.environ.get("CLUSTER_STORE", "memory://"),
        namespace="followed",
        embedded=bool(os.environ.get("CLUSTER_EMBEDDED")),
    )
)
dramatiq.set_broker(broker)


@dramatiq.actor(throws=ValueError)
def work(*seconds):
    do(seconds)


@dramatiq.actor(throws=ValueError, max_retries=2)
def retried(*seconds):
    """Give up now and then, to go on as a retry."""
    do(seconds, _RETRIES)


def do(seconds, retries=0.0):
    run, message = current_run(), CurrentMessage.get_current_message()
    assert run is not None, "what is sent here is ours"
    assert message is not None, "an actor works on one"
    retry = message.options.get("retries", 0)
    said = {
        "job": run.job,
        "slot": run.slot.isoformat(),
        "attempt": run.attempt,
        "fence": run.fence,
        "token": run.token,
        "retry": retry,
        "message": message.message_id,
        "pid": os.getpid(),
    }
    note("began", **said)
    outcome = "failed"
    try:
        threading.Event().wait(_chance.uniform(*seconds))
        if retry < 2 and _chance.random() < retries:
            outcome = "retried"
            raise Retry("not now", delay=int(_chance.uniform(*COUNTDOWN) * 1000))
        if _chance.random() < _FAILS:
            raise ValueError("fails now and then")
        outcome = "success"
    finally:
        note("ended", outcome=outcome, **said)


def entry(name, actor, interval, seconds, **ours):
    job: dict[str, Any] = {"track": True, "lease": "3s", "heartbeat": "1s", "start_within": "8s"}
    job |= {"on_store_error": "retry", "history_limit": 5000, **ours}
    schedule(broker, name, every(interval), actor, args=seconds, **job)


entry("short-skip", work, 2.0, SHORT, overlap="skip")
entry("long-skip", work, 3.0, LONG, overlap="skip")
entry("retried-skip", retried, 4.0, SHORT, overlap="skip")
entry("retried-allow", retried, 4.0, MIDDLING, overlap="allow")
entry("middling-allow", work, 4.0, MIDDLING, overlap="allow")
entry("once-allow", work, 5.0, MIDDLING, overlap="allow", max_attempts=1)
entry("unasked-allow", work, 5.0, MIDDLING, overlap="allow", on_store_error="run")
