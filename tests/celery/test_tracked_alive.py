"""A run is kept alive as long as its task is worked on, at a price that is known."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from anarchon.run import RunState
from tests.celery.tracked import TestStore, TrackedWorker
from tests.servers import ServersForTests
from tests.servers.process import exchange
from tests.servers.redis import RedisServer

pytestmark = pytest.mark.xdist_group("celery-tracked")

POOLS = ["prefork", "threads", "solo", "gevent"]


@pytest.fixture(scope="module")
def store_server(servers: ServersForTests) -> Iterator[RedisServer]:
    """A store of these workers alone, so that its connections can be counted."""
    server = servers.start("redis-8.0")
    assert isinstance(server, RedisServer)
    yield server
    server.kill()


@pytest.fixture
def store(store_server: RedisServer) -> TestStore:
    return TestStore(store_server.url())


def a_worker(
    redis_broker: RedisServer, store: TestStore, pool: str, folder: Path, *options: str
) -> TrackedWorker:
    return TrackedWorker(redis_broker.url(database=8), store.url, pool, folder, options=options)


def connections(server: RedisServer) -> int:
    """Return how many there are, but for ours."""
    told = exchange(server.port, b"CLIENT LIST\r\n", 100_000).decode()
    return sum(line.startswith("id=") for line in told.splitlines()) - 1


def wait_until_connections_are(server: RedisServer, count: int, seconds: float) -> None:
    end = time.monotonic() + seconds  # noqa: TID251
    while (now := connections(server)) != count:
        assert time.monotonic() < end, f"still {now} connections"  # noqa: TID251
        time.sleep(0.1)  # noqa: TID251


@pytest.mark.parametrize("pool", POOLS)
def test_a_task_may_take_much_longer_than_its_lease(
    redis_broker: RedisServer, store: TestStore, tmp_path: Path, pool: str
) -> None:
    with a_worker(redis_broker, store, pool, tmp_path) as worker:
        said = store.publishable(lease=1)

        sent = worker.send(said, "sleep", 4)
        worker.mailbox.find("body", id=sent)
        while not (newest := store.attempts(said)[0]).state.has_ended:
            assert store.taken_over(said) is None

    assert (newest.state, newest.attempt) == (RunState.SUCCESS, 1), worker.log[-3000:]
    assert "Traceback" not in worker.log


@pytest.mark.parametrize("pool", ["gevent", "prefork"])
def test_a_postgres_is_found_by_its_name_and_kept_informed(
    redis_broker: RedisServer, servers: ServersForTests, tmp_path: Path, pool: str
) -> None:
    store = TestStore(servers.get("postgres-15").url().replace("127.0.0.1", "localhost"))
    with a_worker(redis_broker, store, pool, tmp_path) as worker:
        said = store.publishable(lease=1)

        worker.send(said, "sleep", 2)

        end = store.end_of(said)
    assert (end.state, end.attempt) == (RunState.SUCCESS, 1), worker.log[-3000:]


def test_a_worker_that_cannot_find_its_store_does_not_start(
    redis_broker: RedisServer, tmp_path: Path
) -> None:
    worker = TrackedWorker(redis_broker.url(database=8), "nonsense://x", "prefork", tmp_path)

    worker.start()

    assert worker.process.wait(30) == 1
    assert "no backend answers to nonsense://; use one of memory://" in worker.log
    worker.mailbox.close()


@pytest.mark.parametrize(
    ("pool", "most"),
    [
        ("prefork", 2 + 2),
        pytest.param("threads", 2, marks=pytest.mark.soak),
        ("gevent", 2),
    ],
    ids=str,
)
def test_a_main_process_has_two_connections_at_most_and_a_child_one(
    redis_broker: RedisServer,
    store_server: RedisServer,
    store: TestStore,
    tmp_path: Path,
    pool: str,
    most: int,
) -> None:
    with a_worker(redis_broker, store, pool, tmp_path) as worker:
        wait_until_connections_are(store_server, 0, 5)

        runs = [store.publishable(lease=1) for _ in range(2)]
        for said in runs:
            worker.send(said, "sleep", 3)
        for _ in runs:
            worker.mailbox.find("body")
        counted = set()
        while not all(store.attempts(said)[0].state.has_ended for said in runs):
            counted.add(connections(store_server))

        assert most - 1 <= max(counted) <= most
        # all of them are closed after ten seconds without need
        wait_until_connections_are(store_server, 0, 14)
        again = store.publishable()
        worker.send(again)
        assert store.end_of(again).state is RunState.SUCCESS


def test_a_run_whose_worker_was_killed_is_taken_over(
    redis_broker: RedisServer, store: TestStore, tmp_path: Path
) -> None:
    said = store.publishable(lease=1)
    with a_worker(redis_broker, store, "prefork", tmp_path) as worker:
        sent = worker.send(said, "sleep", 30)
        worker.mailbox.find("body", id=sent)
        worker.kill()

        taken = store.until_taken_over(said)

    with a_worker(redis_broker, store, "threads", tmp_path) as another:
        another.send(taken)
        end = store.end_of(said)
    assert (end.state, end.attempt) == (RunState.SUCCESS, 2)
    assert store.attempts(said)[1].state is RunState.LOST


def test_a_worker_that_was_frozen_tells_of_the_lease_it_lost_and_ends_nothing(
    redis_broker: RedisServer, store: TestStore, tmp_path: Path
) -> None:
    said = store.publishable(lease=1)
    with a_worker(redis_broker, store, "prefork", tmp_path) as worker:
        sent = worker.send(said, "sleep", 6)
        body = worker.mailbox.find("body", id=sent)
        store.until(said, lambda attempt: attempt.begun is not None)
        time.sleep(1)  # noqa: TID251
        os.kill(worker.process.pid, signal.SIGSTOP)
        try:
            taken = store.until_taken_over(said)
        finally:
            os.kill(worker.process.pid, signal.SIGCONT)
        worker.mailbox.find("hook", id=sent, state="SUCCESS")

        assert taken is not None
        assert body["pid"] != worker.process.pid
        assert store.attempts(said)[0].state is RunState.QUEUED
        assert "lease lost while its task works on" in worker.log
        assert "end refused" in worker.log


def test_children_that_live_for_one_task_start_each_run_once(
    redis_broker: RedisServer, store: TestStore, tmp_path: Path
) -> None:
    options = ("--max-tasks-per-child", "1")
    with a_worker(redis_broker, store, "prefork", tmp_path, *options) as worker:
        runs = [store.publishable() for _ in range(25)]
        # one whose lease is renewed all the while, so that the main process is busy at a fork
        long = store.publishable(lease=0.3)
        worker.send(long, "sleep", 5)
        for said in runs:
            worker.send(said)

        ends = [store.end_of(said, 50) for said in (*runs, long)]

    assert {(end.state, end.attempt) for end in ends} == {(RunState.SUCCESS, 1)}
    assert len({end.worker for end in ends}) == 1
    assert "Traceback" not in worker.log


def test_a_pool_that_is_restarted_is_the_same_worker(
    redis_broker: RedisServer, store: TestStore, tmp_path: Path
) -> None:
    environment = {"PROJECT_POOL_RESTARTS": "1"}
    worker = TrackedWorker(
        redis_broker.url(database=8), store.url, "prefork", tmp_path, environment=environment
    )
    with worker:
        before = store.publishable()
        worker.send(before)
        first = store.end_of(before)
        (name,) = [f"celery@{worker.queue}"]

        # a connection of its own: one of the app's pool may be of a server that is gone
        with worker.app.connection_for_write() as connection:
            replies = worker.app.control.pool_restart(
                destination=[name], reply=True, timeout=20, connection=connection
            )
        after = store.publishable(lease=1)
        worker.send(after, "sleep", 3)
        second = store.end_of(after)

    assert "ok" in (replies or [{}])[0][name]
    assert (second.state, second.attempt, second.worker) == (RunState.SUCCESS, 1, first.worker)
