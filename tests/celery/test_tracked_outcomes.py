"""However a task ends, its run ends in the state that this stands for, on every pool."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from anarchon.run import RunState
from tests.celery.tracked import TestStore, TrackedWorker
from tests.servers import ServersForTests
from tests.servers.redis import RedisServer

pytestmark = pytest.mark.xdist_group("celery-tracked")

#: Pool, Celery and broker.
WORKERS = [
    ("prefork", "5.7", "redis"),
    ("threads", "5.7", "redis"),
    ("solo", "5.7", "redis"),
    ("gevent", "5.7", "redis"),
    ("prefork", "5.6", "redis"),
    ("threads", "5.6", "redis"),
    ("gevent", "5.6", "redis"),
    ("prefork", "5.7", "rabbitmq"),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> TestStore:
    return TestStore(f"sqlite:///{tmp_path_factory.mktemp('store')}/store.db")


@pytest.fixture(scope="module", params=WORKERS, ids=" ".join)
def worker(
    request: pytest.FixtureRequest,
    servers: ServersForTests,
    store: TestStore,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[TrackedWorker]:
    pool, version, broker = request.param
    server = servers.get("redis-8.0" if broker == "redis" else "rabbitmq-3.10")
    url = server.url(database=8) if isinstance(server, RedisServer) else server.url()
    older = [servers.fetched("celery-5.6")] if version == "5.6" else []
    folder = tmp_path_factory.mktemp("worker")
    with TrackedWorker(url, store.url, pool, folder, libraries=older) as worker:
        assert f"v{version}." in worker.log
        yield worker


ENDINGS = [
    (("nothing",), RunState.SUCCESS, '{"did": "nothing"}'),
    (("raise",), RunState.FAILED, "ValueError('no such thing')"),
    (("ignore",), RunState.SUCCESS, "ignored: the task raised Ignore"),
    (("reject",), RunState.FAILED, "rejected: 'not mine'"),
    (("retry", 0), RunState.SUCCESS, '{"did": "retry"}'),
]


@pytest.mark.parametrize(("args", "state", "detail"), ENDINGS, ids=[e[0][0] for e in ENDINGS])
def test_a_run_ends_as_its_task_does(
    worker: TrackedWorker, store: TestStore, args: Any, state: RunState, detail: str
) -> None:
    said = store.publishable()

    sent = worker.send(said, *args)

    end = store.end_of(said)
    assert (end.state, end.detail) == (state, detail), worker.log[-3000:]
    assert (end.attempt, end.message) == (1, sent)
    assert (end.worker or "").startswith(f"celery@{worker.queue}-"), end


def test_a_retry_has_a_start_deadline_of_its_own(worker: TrackedWorker, store: TestStore) -> None:
    said = store.publishable()

    # the message expires when its run may not be begun any more, long before the retry
    soon = datetime.now(UTC) + timedelta(seconds=2)  # noqa: TID251
    worker.send(said, "retry", 3, expires=soon)

    end = store.end_of(said)
    assert (end.state, end.detail) == (RunState.SUCCESS, '{"did": "retry"}'), worker.log[-3000:]


def test_a_result_too_large_is_cut(worker: TrackedWorker, store: TestStore) -> None:
    said = store.publishable()

    worker.send(said, "large")

    detail = store.end_of(said).detail or ""
    assert len(detail) == 2000
    assert detail.endswith("xxx...")


def test_a_soft_limit_ends_the_run(worker: TrackedWorker, store: TestStore) -> None:
    if worker.pool == "gevent":
        pytest.skip("gevent's pool knows hard limits only")
    said = store.publishable()

    worker.send(said, "sleep", 3, soft_time_limit=1)

    end = store.end_of(said)
    assert end.state is RunState.FAILED
    limited = "SoftTimeLimitExceeded" if worker.pool == "prefork" else "time limit of 1 s"
    assert limited in (end.detail or "")


def test_a_hard_limit_ends_the_run(worker: TrackedWorker, store: TestStore) -> None:
    said = store.publishable()

    worker.send(said, "sleep", 3, time_limit=1)

    end = store.end_of(said)
    assert end.state is RunState.FAILED
    enforced = worker.pool in ("prefork", "gevent")
    limited = "TimeLimitExceeded(1" if enforced else "time limit of 1 s"
    assert limited in (end.detail or "")


def test_a_limit_that_the_task_obeys_leaves_its_result(
    worker: TrackedWorker, store: TestStore
) -> None:
    if worker.pool != "prefork":
        pytest.skip("this pool raises nothing in its tasks")
    said = store.publishable()

    worker.send(said, "catch", 10, soft_time_limit=1, time_limit=8)

    assert store.end_of(said).detail == '"caught"'


def test_a_limit_that_was_not_reached_changes_nothing(
    worker: TrackedWorker, store: TestStore
) -> None:
    said = store.publishable()

    sent = worker.send(said, "nothing", time_limit=2, soft_time_limit=1)
    worker.mailbox.find("hook", id=sent, state="SUCCESS")
    later = store.publishable()
    worker.send(later, "sleep", 2.5)

    assert store.end_of(later).state is RunState.SUCCESS
    assert store.end_of(said).detail == '{"did": "nothing"}'


def test_a_task_that_exits_has_failed(worker: TrackedWorker, store: TestStore) -> None:
    if worker.pool == "solo":
        pytest.skip("the worker itself ends with it")
    said = store.publishable()

    worker.send(said, "exit")

    end = store.end_of(said)
    assert end.state is RunState.FAILED
    assert any(error in (end.detail or "") for error in ("WorkerLostError", "SystemExit(3)"))


def test_a_task_revoked_before_it_started_has_failed(
    worker: TrackedWorker, store: TestStore
) -> None:
    said, name = store.publishable(), uuid4().hex
    there = [f"celery@{worker.queue}"]
    # a worker that is still starting hears nothing yet
    assert any(
        worker.app.control.revoke(name, destination=there, reply=True, timeout=10) for _ in range(3)
    )

    worker.send(said, "nothing", id=name)

    end = store.end_of(said)
    assert (end.state, end.detail) == (RunState.FAILED, "revoked")


def test_a_task_that_is_terminated_has_failed(worker: TrackedWorker, store: TestStore) -> None:
    if worker.pool not in ("prefork", "gevent"):
        pytest.skip("this pool terminates nothing")
    said = store.publishable()
    sent = worker.send(said, "sleep", 20)
    worker.mailbox.find("body", id=sent)

    worker.app.control.revoke(sent, terminate=True)

    end = store.end_of(said, 10)
    assert (end.state, end.detail) == (RunState.FAILED, "revoked while it ran")


def test_a_message_that_expired_ends_its_run_at_the_start_deadline(
    worker: TrackedWorker, store: TestStore
) -> None:
    said = store.publishable(start_within=3)

    sent = worker.send(said, "nothing", expires=datetime.now(UTC) - timedelta(seconds=1))  # noqa: TID251

    assert store.until_overdue(said).state is RunState.EXPIRED
    assert f"Discarding revoked task: proj.act[{sent}]" in worker.log


def test_a_child_that_is_killed_has_failed(worker: TrackedWorker, store: TestStore) -> None:
    if worker.pool != "prefork":
        pytest.skip("the worker itself is killed with it")
    said = store.publishable()

    worker.send(said, "die")

    end = store.end_of(said)
    assert end.state is RunState.FAILED
    assert "WorkerLostError" in (end.detail or "")


def test_a_message_that_goes_back_when_its_child_is_killed_starts_once_an_attempt(
    worker: TrackedWorker, store: TestStore
) -> None:
    if worker.pool != "prefork":
        pytest.skip("the worker itself is killed with it")
    said = store.publishable(lease=2, max_attempts=2)

    first = worker.send(said, "die", task="proj.late_ack")
    taken = store.until_taken_over(said)
    second = worker.send(taken, "die", task="proj.late_ack")
    assert store.until_taken_over(said) is None

    assert [a.state for a in store.attempts(said)] == [RunState.LOST, RunState.LOST]
    bodies = [body["id"] for body in worker.mailbox.rest("body")]
    assert [id for id in bodies if id in (first, second)] == [first, second]
    assert f"not started: job={said['job']}" in worker.log


def test_a_message_that_its_task_sends_back_is_left_to_a_takeover(
    worker: TrackedWorker, store: TestStore
) -> None:
    said = store.publishable(lease=2, max_attempts=2)

    sent = worker.send(said, "requeue", task="proj.late_ack")
    worker.mailbox.find("hook", id=sent, state="REJECTED")
    worker.mailbox.find("hook", id=sent, state="IGNORED")
    taken = store.until_taken_over(said)

    assert taken is not None
    worker.send(taken, "nothing")
    assert store.end_of(said).state is RunState.SUCCESS


def test_a_message_that_was_acknowledged_early_cannot_be_sent_back(
    worker: TrackedWorker, store: TestStore
) -> None:
    said = store.publishable()

    worker.send(said, "requeue")

    assert store.end_of(said).detail == "rejected: 'not mine'"
