"""Real `dramatiq` processes on Redis and on RabbitMQ that run the schedule and do its work."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from dramatiq.message import Message
from dramatiq.results.backends import RedisBackend

from anarchon.message import HEADER
from anarchon.run import RunState
from tests.celery.beats import assert_every_slot_once
from tests.dramatiq.pods import ROOT, Place
from tests.servers import ServersForTests
from tests.servers.rabbitmq import RabbitServer
from tests.servers.redis import RedisServer

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.xdist_group("dramatiq-brokers"),
    pytest.mark.timeout(150),
]

TICKS = {f"tick-{n}": {"every": "1s", "actor": "tick"} for n in range(3)}


def long(what: str, seconds: float, actor: str = "act") -> dict[str, Any]:
    """Return a tracked job that is due once, when the store first sees it."""
    job = {"track": True, "overlap": "skip", "lease": "2s", "run_at_start": True}
    return {"long": {"every": "1d", "actor": actor, "args": [what, seconds], "job": job}}


@pytest.fixture(params=["redis-8.0", pytest.param("rabbitmq-3.10", marks=pytest.mark.soak)])
def place(
    request: pytest.FixtureRequest, servers: ServersForTests, tmp_path: Path
) -> Iterator[Place]:
    redis, server = servers.get("redis-8.0"), servers.get(request.param)
    assert isinstance(redis, RedisServer)
    if isinstance(server, RabbitServer):
        broker = server.url().rstrip("/") + "/%2F"
    else:
        broker = redis.url(database=12)
    store = f"sqlite:///{tmp_path}/store.db"
    place = Place(tmp_path, broker, redis.url(database=13), store)
    yield place
    place.close()


def read_ticks(place: Place, count: int, slots: dict[str, list[datetime]]) -> None:
    """Wait for so many more ticks."""
    for _ in range(count):
        said = place.mailbox.find("slot")
        slots.setdefault(said["job"], []).append(datetime.fromisoformat(said["slot"]))


@pytest.mark.parametrize(
    "seconds",
    [
        20,
        pytest.param(300, marks=[pytest.mark.soak, pytest.mark.timeout(400)]),
    ],
)
def test_two_pods_of_two_processes_run_every_slot_once(place: Place, seconds: int) -> None:
    slots: dict[str, list[datetime]] = {}
    pods = [place.pod(TICKS, processes=2) for _ in range(2)]

    read_ticks(place, len(TICKS) * seconds, slots)
    engines = [len(pod.engines) for pod in pods]
    codes = [pod.end() for pod in pods]
    while not place.mailbox.is_empty():
        read_ticks(place, 1, slots)

    assert codes == [0, 0]
    for found in slots.values():
        found.sort()
    counts = {job: len(found) for job, found in slots.items()}
    print(f"{place.broker.partition(':')[0]}: every slot once, of {counts}")  # noqa: T201
    assert_every_slot_once(slots, jobs=len(TICKS))
    assert engines == [1, 1], "one engine a pod"
    assert "Traceback" not in pods[0].log + pods[1].log


def test_when_the_engine_of_a_machine_is_killed_another_goes_on_within_seconds(
    place: Place,
) -> None:
    first = place.pod(TICKS, host="one-machine")
    place.until(lambda: first.engines, first)
    second = place.pod(TICKS, host="one-machine")
    read_ticks(place, 6, {})
    assert second.engines == []

    first.kill()
    place.mailbox.rest("slot")
    place.until(lambda: second.engines, second, seconds=5)
    slots: dict[str, list[datetime]] = {}
    read_ticks(place, 9, slots)

    assert all(len(set(found)) == len(found) for found in slots.values())


def test_when_the_engine_of_a_machine_stands_still_another_steps_in(place: Place) -> None:
    pod = place.pod(TICKS, processes=2)
    place.until(lambda: pod.engines, pod)
    read_ticks(place, 6, {})
    (frozen,) = pod.engines

    os.kill(frozen, signal.SIGSTOP)
    place.until(lambda: len(pod.engines) == 2, pod)
    place.mailbox.rest("slot")
    # of what it had taken from the queue the broker may give some twice
    read_ticks(place, 9, {})
    os.kill(frozen, signal.SIGCONT)

    assert "shows no life: stepping in" in pod.log
    assert pod.end() == 0


def test_pods_of_greenlets_run_every_slot_once_and_follow_their_runs(place: Place) -> None:
    tracked = {name: {**entry, "job": {"track": True}} for name, entry in TICKS.items()}
    slots: dict[str, list[datetime]] = {}
    pods = [place.pod(tracked, program="dramatiq-gevent") for _ in range(2)]

    read_ticks(place, len(TICKS) * 5, slots)
    codes = [pod.end() for pod in pods]
    while not place.mailbox.is_empty():
        read_ticks(place, 1, slots)

    assert codes == [0, 0]
    for job, found in slots.items():
        found.sort()
        ended = {run.slot for run in place.store.attempts({"job": job}) if run.state.has_ended}
        assert set(found) == ended
    assert_every_slot_once(slots, jobs=len(TICKS))


def test_a_web_process_that_imports_the_broker_runs_nothing() -> None:
    script = (
        "import threading; from tests.dramatiq import project as p;"
        " print([t.name for t in threading.enumerate()])"
    )

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, timeout=60
    )

    assert done.stdout.strip() == "['MainThread']", done.stderr


def test_a_run_whose_worker_is_killed_goes_on_elsewhere_and_its_message_is_skipped(
    place: Place,
) -> None:
    pods = [place.pod(long("sleep-first", 60)) for _ in range(2)]
    began = place.mailbox.find("body")
    (victim,) = [pod for pod in pods if began["pid"] in pod.pids]
    (other,) = [pod for pod in pods if pod is not victim]

    victim.kill()
    again = place.mailbox.find("body", seconds=30)

    assert (began["attempt"], again["attempt"]) == (1, 2)
    assert again["pid"] in other.pids
    assert again["slot"] == began["slot"]
    place.until(lambda: "not started: job=long" in other.log, other)
    end = place.store.end_of({"job": "long"})
    assert (end.state, end.attempt) == (RunState.SUCCESS, 2)
    assert place.mailbox.rest("body") == []


def test_a_pod_that_is_frozen_in_the_middle_of_a_run_is_superseded(place: Place) -> None:
    pods = [place.pod(long("sleep-first", 3)) for _ in range(2)]
    began = place.mailbox.find("body")
    (victim,) = [pod for pod in pods if began["pid"] in pod.pids]
    (other,) = [pod for pod in pods if pod is not victim]

    with victim.frozen():
        again = place.mailbox.find("body", seconds=30)
        end = place.store.end_of({"job": "long"})
        place.until(lambda: "not started: job=long" in other.log, other)
    place.until(lambda: "end refused: job=long" in victim.log, victim)

    assert (again["attempt"], again["pid"] in other.pids) == (2, True)
    assert (end.state, end.attempt) == (RunState.SUCCESS, 2)
    assert place.mailbox.rest("body") == []


@pytest.mark.soak
@pytest.mark.timeout(240)
@pytest.mark.parametrize("place", ["redis-8.0"], indirect=True)
@pytest.mark.parametrize(("lease", "attempts"), [("2s", 2), ("3m", 1)])
def test_a_pod_that_is_frozen_for_longer_than_dramatiqs_own_timeout_starts_nothing_twice(
    place: Place, lease: str, attempts: int
) -> None:
    """G12: the broker gives its message to the other pod, with attempt 1 or beside attempt 2."""
    place.environment["PROJECT_SILENCE"] = "60000"
    schedules = long("sleep-first", 3)
    schedules["long"]["job"]["lease"] = lease
    pods = [place.pod(schedules) for _ in range(2)]
    began = place.mailbox.find("body")
    (victim,) = [pod for pod in pods if began["pid"] in pod.pids]
    (other,) = [pod for pod in pods if pod is not victim]

    with victim.frozen():
        place.store.nap(70)
        place.until(lambda: "not started: job=long" in other.log, other)
    end = place.store.end_of({"job": "long"})
    place.store.nap(5)

    print(f"lease {lease}: {other.log.count('not started: job=long')} starts refused")  # noqa: T201
    assert (end.state, end.attempt) == (RunState.SUCCESS, attempts)
    begun = [began, *place.mailbox.rest("body")]
    assert [one["attempt"] for one in begun] == list(range(1, attempts + 1))


@pytest.mark.parametrize(("lease", "attempts"), [("2s", 2), ("20s", 1)])
def test_an_actor_that_keeps_the_interpreter_to_itself_needs_a_longer_lease(
    place: Place, lease: str, attempts: int
) -> None:
    schedules = long("hold-first", 6)
    schedules["long"]["job"]["lease"] = lease
    for _ in range(2):
        place.pod(schedules)

    end = place.store.end_of({"job": "long"}, seconds=40)
    ends = [place.mailbox.find("end") for _ in range(attempts)]

    assert (end.state, end.attempt) == (RunState.SUCCESS, attempts)
    assert sorted(one["attempt"] for one in ends) == list(range(1, attempts + 1))
    assert place.mailbox.rest("body") == []


def test_a_retried_message_keeps_its_run(place: Place) -> None:
    place.pod(long("raise-first", 0), processes=2)

    first, second = place.mailbox.find("body"), place.mailbox.find("body")

    assert [one["retries"] for one in (first, second)] == [0, 1]
    assert [one["attempt"] for one in (first, second)] == [1, 1]
    end = place.store.end_of({"job": "long"})
    assert (end.state, end.attempt) == (RunState.SUCCESS, 1)


def test_skipping_a_duplicate_keeps_the_result(place: Place) -> None:
    pod = place.pod()
    said = place.store.publishable()
    message: Message[Any] = Message(
        queue_name=place.queue,
        actor_name="act",
        args=("nothing",),
        kwargs={},
        options={HEADER: said},
        message_id=str(uuid4()),
    )
    for _ in range(2):
        send(place, message)
        place.store.end_of(said)

    place.until(lambda: f"not started: job={said['job']}" in pod.log, pod)
    last: Message[Any] = Message(place.queue, "tick", (), {}, {})
    send(place, last)
    place.mailbox.find("body", body="tick")

    results = RedisBackend(url=place.results)
    try:
        assert results.get_result(message) == {"did": "nothing"}
    finally:
        results.client.connection_pool.disconnect()


def test_a_pod_that_is_told_to_stop_finishes_its_run_and_keeps_its_lease(place: Place) -> None:
    pods = [place.pod(long("sleep", 6)) for _ in range(2)]
    began = place.mailbox.find("body")
    (told,) = [pod for pod in pods if began["pid"] in pod.pids]

    assert told.end() == 0

    end = place.store.end_of({"job": "long"})
    assert (end.state, end.attempt) == (RunState.SUCCESS, 1)
    assert place.mailbox.rest("body") == []


def test_an_actor_that_is_told_of_the_shutdown_hands_its_run_to_another_pod(
    place: Place,
) -> None:
    pods = [place.pod(long("sleep-first", 60, actor="warned")) for _ in range(2)]
    began = place.mailbox.find("body")
    (told,) = [pod for pod in pods if began["pid"] in pod.pids]
    (other,) = [pod for pod in pods if pod is not told]

    told.send(signal.SIGTERM)
    again = place.mailbox.find("body", seconds=30)

    assert (again["attempt"], again["retries"]) == (1, 1)
    if again["pid"] not in told.pids:
        assert again["pid"] in other.pids
    end = place.store.end_of({"job": "long"})
    assert (end.state, end.attempt) == (RunState.SUCCESS, 1)
    assert told.process.wait(30) == 0


def send(place: Place, message: Message[Any]) -> None:
    """Send a message as it is."""
    from tests.dramatiq.project import make_broker

    broker = make_broker(place.broker)
    broker.declare_queue(place.queue)
    broker.enqueue(message)
    broker.close()
    client = getattr(broker, "client", None) if not place.broker.startswith("amqp") else None
    if client is not None:
        client.connection_pool.disconnect()
