"""What `dramatiq tests.dramatiq.project` runs: actors that end in any way there is.

Which of them are periodic, and on which broker, comes from the test.
"""

import ctypes
import json
import os
import socket
import threading
from typing import Any

import dramatiq
from dramatiq import Broker
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import CurrentMessage
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

from anarchon.clock import rfc3339
from anarchon_dramatiq import AnarchonMiddleware, current_run, every, schedule

BROKER = os.environ.get("PROJECT_BROKER", "redis://127.0.0.1:1/0")
RESULTS = os.environ.get("PROJECT_RESULTS", "redis://127.0.0.1:1/0")
QUEUE = os.environ.get("PROJECT_QUEUE", "default")
#: Whoever is silent for so long has died, as the Redis broker sees it.
_SILENCE = int(os.environ.get("PROJECT_SILENCE", "4000"))
_REPORT_TO = int(os.environ.get("PROJECT_REPORT_TO", "0"))


def make_broker(url: str = BROKER) -> Broker:
    """Return a broker that soon notices when a worker has died."""
    if url.startswith("amqp"):
        return RabbitmqBroker(url=f"{url}?heartbeat=4")
    # every command looks for those that have died
    return RedisBroker(url=url, heartbeat_timeout=_SILENCE, maintenance_chance=1_000_000)


broker = make_broker()
broker.add_middleware(CurrentMessage())
broker.add_middleware(Results(backend=RedisBackend(url=RESULTS)))
broker.add_middleware(
    AnarchonMiddleware(
        os.environ.get("PROJECT_STORE", "memory://"),
        namespace=os.environ.get("PROJECT_NAMESPACE", "proj"),
        jitter=0,
    )
)
dramatiq.set_broker(broker)


def report(**said: Any) -> None:
    """Tell a UDP port of this machine."""
    run, message = current_run(), CurrentMessage.get_current_message()
    assert message is not None
    known = {"pid": os.getpid(), "retries": message.options.get("retries", 0)}
    if run is not None:
        known |= {"job": run.job, "slot": rfc3339(run.slot), "attempt": run.attempt}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        line.sendto(json.dumps({**known, **said}).encode(), ("127.0.0.1", _REPORT_TO))


@dramatiq.actor(queue_name=QUEUE)
def tick() -> None:
    """Tell that it ran."""
    report(body="tick")


@dramatiq.actor(queue_name=QUEUE, store_results=True, min_backoff=200, max_backoff=200)
def act(what: str = "nothing", seconds: float = 0.0) -> Any:
    """Do one of the things an actor may do."""
    _act(what, seconds)
    return {"did": what}


@dramatiq.actor(queue_name=QUEUE, notify_shutdown=True, min_backoff=200, max_backoff=200)
def warned(what: str = "nothing", seconds: float = 0.0) -> None:
    """Do the same, but be told of a shutdown."""
    _act(what, seconds)


def _act(what: str, seconds: float) -> None:
    run, message = current_run(), CurrentMessage.get_current_message()
    assert message is not None
    is_first = message.options.get("retries", 0) == 0 and (run is None or run.attempt == 1)
    report(body=what)
    if what == "sleep" or (what == "sleep-first" and is_first):
        _nap(seconds)
    if what == "hold-first" and is_first:
        # as some C code does: no other thread of this process runs meanwhile
        ctypes.PyDLL(None).sleep(int(seconds))
    if what == "raise-first" and is_first:
        raise ValueError("not yet")
    report(end=what)


def _nap(seconds: float) -> None:
    for _ in range(int(seconds / 0.05)):
        threading.Event().wait(0.05)


for _name, _entry in json.loads(os.environ.get("PROJECT_SCHEDULES", "{}")).items():
    schedule(
        broker,
        _name,
        every(_entry["every"]),
        broker.get_actor(_entry["actor"]),
        args=_entry.get("args", ()),
        **_entry.get("job", {}),
    )
