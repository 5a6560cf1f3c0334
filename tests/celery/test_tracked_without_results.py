"""What is lost with its process is told of although Celery cannot keep its result."""

from collections.abc import Iterator

import pytest

from anarchon.run import RunState
from tests.celery.tracked import TestStore, TrackedWorker
from tests.servers import ServersForTests
from tests.servers.redis import RedisServer

pytestmark = pytest.mark.xdist_group("celery-tracked")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> TestStore:
    return TestStore(f"sqlite:///{tmp_path_factory.mktemp('store')}/store.db")


@pytest.fixture(scope="module", params=["prefork", "gevent"])
def worker(
    request: pytest.FixtureRequest,
    servers: ServersForTests,
    store: TestStore,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[TrackedWorker]:
    away = {"PROJECT_RESULTS": "tests.celery.no_results:Away"}
    server = servers.get("redis-8.0")
    assert isinstance(server, RedisServer)
    broker, folder = server.url(database=8), tmp_path_factory.mktemp("worker")
    with TrackedWorker(broker, store.url, request.param, folder, environment=away) as worker:
        yield worker


def test_a_hard_limit_ends_the_run(worker: TrackedWorker, store: TestStore) -> None:
    said = store.publishable()

    worker.send(said, "sleep", 3, time_limit=1)

    end = store.end_of(said)
    assert end.state is RunState.FAILED
    assert "TimeLimitExceeded(1" in (end.detail or "")
    assert "the result backend is away" in worker.log


def test_a_child_that_is_killed_has_failed(worker: TrackedWorker, store: TestStore) -> None:
    if worker.pool != "prefork":
        pytest.skip("the worker itself is killed with it")
    said = store.publishable()

    worker.send(said, "die")

    end = store.end_of(said)
    assert end.state is RunState.FAILED
    assert "WorkerLostError" in (end.detail or "")
    assert "the result backend is away" in worker.log


def test_a_message_that_goes_back_is_left_to_a_takeover(
    worker: TrackedWorker, store: TestStore
) -> None:
    if worker.pool != "prefork":
        pytest.skip("the worker itself is killed with it")
    said = store.publishable(lease=2)

    worker.send(said, "die", task="proj.late_ack")

    assert store.until_taken_over(said) is not None
