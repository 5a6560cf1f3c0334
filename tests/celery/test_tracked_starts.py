"""A tracked message starts its task once, and what is none of ours is left alone."""

from collections.abc import Iterator

import pytest

from anarchon.run import RunState
from tests.celery.tracked import TestStore, TrackedWorker
from tests.servers.redis import RedisServer

pytestmark = pytest.mark.xdist_group("celery-tracked")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> TestStore:
    return TestStore(f"sqlite:///{tmp_path_factory.mktemp('store')}/store.db")


@pytest.fixture(scope="module", params=["prefork", "threads", "solo", "gevent"])
def worker(
    request: pytest.FixtureRequest,
    redis_broker: RedisServer,
    store: TestStore,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[TrackedWorker]:
    broker, folder = redis_broker.url(database=8), tmp_path_factory.mktemp("worker")
    with TrackedWorker(broker, store.url, request.param, folder) as worker:
        yield worker


@pytest.fixture(autouse=True)
def nothing_left(worker: TrackedWorker) -> None:
    worker.mailbox.rest("body")


def bodies(worker: TrackedWorker) -> list[str]:
    """Return what was started, once a message that was sent after it all has been handled."""
    last = worker.send_untold("last")
    seen = []
    while True:
        report = worker.mailbox.next()
        if report.get("body"):
            seen.append(report["id"])
        if report.get("hook") == "postrun" and report["id"] == last:
            return [id for id in seen if id != last]


@pytest.mark.parametrize("queued", [True, False], ids=["marked", "not yet marked"])
def test_a_message_that_is_delivered_twice_starts_once(
    worker: TrackedWorker, store: TestStore, queued: bool
) -> None:
    said = store.publishable(queued=queued)

    first = worker.send(said)
    worker.mailbox.find("hook", id=first, state="SUCCESS")
    second = worker.send(said)
    worker.mailbox.find("hook", id=second, state="IGNORED")

    assert bodies(worker) == []
    assert store.end_of(said).message == first
    assert f"not started: job={said['job']}" in worker.log


def test_a_message_that_comes_again_while_it_runs_is_refused(
    worker: TrackedWorker, store: TestStore
) -> None:
    if worker.pool == "solo":
        pytest.skip("it runs one task at a time")
    said = store.publishable(lease=1)
    first = worker.send(said, "sleep", 3)
    worker.mailbox.find("body", id=first)

    second = worker.send(said, "sleep", 3, id=first)
    worker.mailbox.find("hook", id=second, state="IGNORED")

    end = store.end_of(said)
    assert (end.state, end.attempt) == (RunState.SUCCESS, 1)


def test_a_message_that_was_overtaken_by_a_takeover_is_refused(
    worker: TrackedWorker, store: TestStore
) -> None:
    old = store.publishable(lease=0.2, queued=False)
    new = store.until_taken_over(old)

    stale = worker.send(old)
    worker.mailbox.find("hook", id=stale, state="IGNORED")
    fresh = worker.send(new)

    assert store.end_of(old).message == fresh
    assert bodies(worker) == [fresh]


def test_an_older_message_is_refused_once_its_retry_was_sent(
    worker: TrackedWorker, store: TestStore
) -> None:
    said = store.publishable()
    sent = worker.send(said, "retry", 2)
    worker.mailbox.find("hook", id=sent, state="RETRY")
    waits = store.until(said, lambda attempt: attempt.state is RunState.QUEUED)

    again = worker.send(said, "retry", 2, id=sent)
    worker.mailbox.find("hook", id=again, state="IGNORED")

    assert waits.attempt == 1
    assert worker.mailbox.find("body", id=sent)["retries"] == 1
    end = store.end_of(said)
    assert (end.state, end.attempt) == (RunState.SUCCESS, 1)


def test_a_message_that_is_none_of_ours_starts(worker: TrackedWorker) -> None:
    sent = worker.send_untold("nothing")

    assert worker.mailbox.find("body", id=sent)["run"] is None


@pytest.mark.parametrize(
    "said", ["text", {"job": "x"}, {"namespace": "proj", "job": "x", "slot": "noon"}], ids=repr
)
def test_a_header_that_is_not_ours_starts_and_is_warned_of(
    worker: TrackedWorker, said: object
) -> None:
    sent = worker.send(said)

    assert worker.mailbox.find("body", id=sent)["run"] is None
    worker.mailbox.find("hook", id=sent, state="SUCCESS")
    assert "is not ours" in worker.log
    assert "its task runs untracked" in worker.log


def test_a_run_of_another_namespace_starts_and_is_warned_of_once(
    worker: TrackedWorker, store: TestStore
) -> None:
    said = {**store.publishable(), "namespace": "staging"}

    for _ in range(2):
        sent = worker.send(said)
        assert worker.mailbox.find("body", id=sent)["run"] is None
        worker.mailbox.find("hook", id=sent, state="SUCCESS")

    (line,) = [line for line in worker.log.splitlines() if "'staging'" in line]
    assert "'proj'" in line


@pytest.mark.parametrize("tracked", [True, False], ids=["tracked", "untracked"])
def test_a_task_is_told_its_run(worker: TrackedWorker, store: TestStore, tracked: bool) -> None:
    said = store.publishable()
    told = {
        "job": said["job"],
        "slot": said["slot"].replace(".000Z", "+00:00"),
        "attempt": 1,
        "fence": said["fence"],
    }
    if not tracked:
        said = {key: said[key] for key in said if key not in ("lease", "on_store_error")}

    sent = worker.send(said)

    run = worker.mailbox.find("body", id=sent)["run"]
    assert run.pop("key").startswith(f"proj:{told['job']}:")
    assert run == told


def test_a_task_that_is_called_by_another_works_on_no_run_of_its_own(
    worker: TrackedWorker, store: TestStore
) -> None:
    said = store.publishable()

    worker.send(said, "nested")

    applied = worker.mailbox.find("body", body="nothing")
    called = worker.mailbox.find("body", body="plain")
    assert applied["run"] is None
    assert called["run"]["job"] == said["job"]
    assert f'"job": "{said["job"]}"' in (store.end_of(said).detail or "")


TASKS = ["proj.one", "proj.other", "proj.called", "proj.late"]


@pytest.mark.parametrize("task", TASKS)
def test_every_kind_of_task_starts_once(worker: TrackedWorker, store: TestStore, task: str) -> None:
    said = store.publishable()

    first = worker.send(said, task=task)
    hook = None if task == "proj.late" else worker.mailbox.find("hook", id=first)
    body = worker.mailbox.find("body", id=first)
    worker.mailbox.find("hook", id=first, state="SUCCESS")
    second = worker.send(said, task=task)
    seen = worker.mailbox.find("id", id=second)

    assert hook is None or hook["hook"] == "before_start"
    assert body["run"]["job"] == said["job"]
    assert (seen["hook"], seen["state"]) == ("postrun", "IGNORED")
    assert store.end_of(said).state is RunState.SUCCESS
