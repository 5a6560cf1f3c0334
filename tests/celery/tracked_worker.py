"""What `celery -A tests.celery.tracked_worker worker` runs: tasks that end in any way there is."""

import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any

from celery import Celery, Task, signals
from celery.exceptions import Ignore, Reject, SoftTimeLimitExceeded

from anarchon_celery import current_run, install

app = Celery("proj", broker=os.environ.get("PROJECT_BROKER"), set_as_current=False)
app.conf.update(
    anarchon_store=os.environ.get("PROJECT_STORE"),
    broker_connection_retry_on_startup=True,
    worker_prefetch_multiplier=1,
    worker_pool_restarts="PROJECT_POOL_RESTARTS" in os.environ,
    result_backend=os.environ.get("PROJECT_RESULTS"),
)
install(app)
_REPORT_TO = int(os.environ.get("PROJECT_REPORT_TO", "0"))


def report(**said: Any) -> None:
    """Tell a UDP port of this machine."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        line.sendto(json.dumps(said, default=str).encode(), ("127.0.0.1", _REPORT_TO))


def nap(seconds: float) -> None:
    threading.Event().wait(seconds)


class Base(Task):  # type: ignore[type-arg]
    """A base of the user's own, with hooks of its own."""

    def before_start(self, task_id: str, args: Any, kwargs: Any) -> None:
        report(hook="before_start", id=task_id)


class Shared(Base):
    """Two registered tasks are of this class."""

    abstract = True

    def run(self, *args: Any) -> None:
        report(body=self.name, id=self.request.id, run=_run())


class Called(Task):  # type: ignore[type-arg]
    """A class with a call of its own."""

    name = "proj.called"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return super().__call__(*args, **kwargs)

    def before_start(self, task_id: str, args: Any, kwargs: Any) -> None:
        super().before_start(task_id, args, kwargs)
        report(hook="before_start", id=task_id)

    def run(self, *args: Any) -> None:
        report(body=self.name, id=self.request.id, run=_run())


def _run() -> dict[str, Any] | None:
    run = current_run()
    if run is None:
        return None
    return {
        "job": run.job,
        "slot": run.slot.isoformat(),
        "attempt": run.attempt,
        "fence": run.fence,
        "key": run.idempotency_key,
    }


for _name in ("proj.one", "proj.other"):
    _task = Shared()
    _task.name = _name
    app.register_task(_task)
app.register_task(Called())


@app.task(name="proj.act", bind=True, shared=False, base=Base, anarchon_result=True)
def act(self: Any, what: str = "nothing", seconds: float = 0.0) -> Any:
    """Do one of the things a task may do."""
    said = {"id": self.request.id, "retries": self.request.retries}
    report(body=what, pid=os.getpid(), run=_run(), **said)
    return _DEEDS.get(what, lambda *_: {"did": what})(self, seconds)


def _raise(error: BaseException) -> None:
    raise error


def _retry(task: Any, seconds: float) -> Any:
    if task.request.retries < 1:
        raise task.retry(countdown=seconds)
    return {"did": "retry"}


def _catch(_: Any, seconds: float) -> str:
    try:
        nap(seconds)
    except SoftTimeLimitExceeded:
        return "caught"
    return "not caught"


def _nested(*_: Any) -> Any:
    act.apply(("nothing",))
    plain()
    return _run()


_DEEDS: dict[str, Callable[[Any, float], Any]] = {
    "sleep": lambda _, seconds: nap(seconds),
    "raise": lambda *_: _raise(ValueError("no such thing")),
    "retry": _retry,
    "ignore": lambda *_: _raise(Ignore()),
    "reject": lambda *_: _raise(Reject("not mine", requeue=False)),
    "requeue": lambda *_: _raise(Reject("not mine", requeue=True)),
    "exit": lambda *_: sys.exit(3),
    "die": lambda *_: os.kill(os.getpid(), signal.SIGKILL),
    "catch": _catch,
    "large": lambda *_: "x" * 10_000,
    "nested": _nested,
}


@app.task(name="proj.late_ack", bind=True, shared=False, acks_late=True, reject_on_worker_lost=True)
def late_ack(self: Any, what: str) -> None:
    report(body="late_ack", id=self.request.id)
    if what == "requeue":
        raise Reject("not mine", requeue=True)
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(name="proj.plain", shared=False)
def plain() -> None:
    report(body="plain", run=_run())


@signals.worker_init.connect
def register_late(**_: Any) -> None:
    """Register a task when the worker has begun to be set up."""

    @app.task(name="proj.late", bind=True, shared=False)
    def late(self: Any) -> None:
        report(body="late", id=self.request.id, run=_run())


@signals.worker_ready.connect
def tell_ready(**_: Any) -> None:
    report(ready=os.getpid())


@signals.task_postrun.connect
def tell_end(task_id: str, state: str, **_: Any) -> None:
    report(hook="postrun", id=task_id, state=state)
