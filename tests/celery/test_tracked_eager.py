"""Tasks that are applied where they are sent: the process is treated as a worker."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from anarchon.message import HEADER
from anarchon.run import RunState
from anarchon_celery import current_run, install
from anarchon_celery.tracking_worker import tracking_of
from tests.celery.tracked import TestStore


@pytest.fixture
def store(tmp_path: Path) -> TestStore:
    return TestStore(f"sqlite:///{tmp_path}/store.db")


@pytest.fixture
def app(store: TestStore) -> Iterator[Celery]:
    app = Celery("proj", broker="memory://", set_as_current=False)
    app.conf.update(anarchon_store=store.url, task_always_eager=True)
    install(app)
    yield app
    tracking = tracking_of(app)
    assert tracking is not None
    tracking.close()
    app.close()


def send(task: Any, said: dict[str, Any]) -> Any:
    return task.apply_async(headers={HEADER: said})


def test_a_task_applied_at_once_ends_its_run(app: Celery, store: TestStore) -> None:
    seen: list[Any] = []

    @app.task(shared=False, anarchon_result=True)
    def act() -> int:
        seen.append(current_run())
        return 7

    said = store.publishable()
    assert send(act, said).get() == 7

    end = store.end_of(said)
    assert (end.state, end.detail) == (RunState.SUCCESS, "7")
    assert [run.job for run in seen] == [said["job"]]
    assert current_run() is None


def test_a_second_one_is_refused(app: Celery, store: TestStore) -> None:
    ran: list[int] = []

    @app.task(shared=False)
    def act() -> None:
        ran.append(1)

    said = store.publishable()
    for _ in range(2):
        send(act, said)

    assert ran == [1]


def test_a_long_one_is_kept_alive(app: Celery, store: TestStore) -> None:
    said = store.publishable(lease=0.6)

    @app.task(shared=False)
    def act() -> None:
        for _ in range(30):
            assert store.taken_over(said) is None
            store.nap(0.05)

    send(act, said)

    assert store.end_of(said).attempt == 1


def test_a_retry_is_the_same_attempt(app: Celery, store: TestStore) -> None:
    retries: list[int] = []

    @app.task(bind=True, shared=False, max_retries=2)
    def act(self: Any) -> None:
        retries.append(self.request.retries)
        if self.request.retries < 2:
            raise self.retry(countdown=0)

    said = store.publishable()
    send(act, said)

    end = store.end_of(said)
    assert (end.state, end.attempt, retries) == (RunState.SUCCESS, 1, [0, 1, 2])


def test_installing_twice_asks_once(app: Celery, store: TestStore) -> None:
    calls: list[str] = []

    @app.task(shared=False)
    def act() -> None:
        calls.append("body")

    app.finalize()
    first = type(app.tasks[act.name]).before_start
    install(app)

    assert type(app.tasks[act.name]).before_start is first
    send(act, store.publishable())
    assert calls == ["body"]
