"""What a worker does while the store does not answer, which the message says."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from anarchon.run import OnStoreError, RunState
from tests.celery.tracked import TestStore, TrackedWorker
from tests.servers import ServersForTests
from tests.servers.redis import RedisServer

pytestmark = pytest.mark.xdist_group("celery-tracked")

POOLS = ["prefork", "threads", "gevent"]


@pytest.fixture(scope="module")
def store_server(servers: ServersForTests) -> Iterator[RedisServer]:
    # one that is killed is to know what it has answered
    server = servers.start("redis-8.0", "--appendfsync", "always")
    assert isinstance(server, RedisServer)
    yield server
    server.kill()


@pytest.fixture
def store(store_server: RedisServer) -> TestStore:
    return TestStore(store_server.url())


@pytest.fixture(params=POOLS)
def worker(
    request: pytest.FixtureRequest, redis_broker: RedisServer, store: TestStore, tmp_path: Path
) -> Iterator[TrackedWorker]:
    broker = redis_broker.url(database=8)
    with TrackedWorker(broker, store.url, request.param, tmp_path) as worker:
        yield worker


def test_a_copy_comes_later_and_its_retries_are_untouched(
    worker: TrackedWorker, store: TestStore, store_server: RedisServer
) -> None:
    said = store.publishable(lease=3)
    store_server.kill()

    sent = worker.send(said)
    worker.mailbox.find("hook", id=sent, state="IGNORED")
    store_server.restart()

    body = worker.mailbox.find("body", id=sent)
    assert body["retries"] == 0
    end = store.end_of(said)
    assert (end.state, end.attempt, end.message) == (RunState.SUCCESS, 1, sent)
    assert "a copy of the message comes in 3 s" in worker.log


def test_the_task_starts_without_the_stores_word_where_it_may(
    worker: TrackedWorker, store: TestStore, store_server: RedisServer
) -> None:
    said = store.publishable(lease=2, on_store_error=OnStoreError.RUN)
    store_server.kill()

    sent = worker.send(said, "sleep", 4)
    worker.mailbox.find("body", id=sent)
    assert "started without the store's word" in worker.log
    store_server.restart()
    begun = store.until(said, lambda attempt: attempt.state is RunState.RUNNING)

    end = store.end_of(said)
    assert (begun.message, end.message) == (sent, sent)
    assert (end.state, end.attempt) == (RunState.SUCCESS, 1)
    assert end.detail == "started without the store's word"


def test_an_end_that_could_not_be_recorded_is_once_the_store_is_back(
    worker: TrackedWorker, store: TestStore, store_server: RedisServer
) -> None:
    said = store.publishable(lease=3)
    sent = worker.send(said, "sleep", 1)
    worker.mailbox.find("body", id=sent)
    store.until(said, lambda attempt: attempt.begun is not None)
    store_server.kill()

    worker.mailbox.find("hook", id=sent, state="SUCCESS")
    assert "end not recorded" in worker.log
    store_server.restart()

    end = store.end_of(said)
    assert (end.state, end.attempt) == (RunState.SUCCESS, 1)


def test_a_task_whose_run_was_begun_by_another_meanwhile_ends_nothing(
    worker: TrackedWorker, store: TestStore, store_server: RedisServer
) -> None:
    said = store.publishable(lease=1, on_store_error=OnStoreError.RUN, queued=False)
    store_server.kill()
    sent = worker.send(said, "sleep", 8)
    worker.mailbox.find("body", id=sent)

    # the message is older than a takeover by the time the store answers
    with worker.frozen():
        store_server.restart()
        taken = store.until_taken_over(said)
    worker.mailbox.find("hook", id=sent, state="SUCCESS")

    assert taken is not None
    assert store.attempts(said)[0].state is RunState.QUEUED
    assert "end refused" in worker.log
