"""The schedule run by workers themselves, in each of the pools."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

import anarchon_celery
from anarchon import ConfigurationError
from anarchon_celery.broker import _close_all
from anarchon_celery.embedded import EmbeddedStep
from tests.celery.beats import END_ITS_THREAD, Outbox, Start, assert_every_slot_once, write_project
from tests.celery.mailbox import Mailbox

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("celery-beats")]

#: Each of its messages is taken by a worker, which tells the test.
TELL = """
import json, os, socket
import anarchon_celery

anarchon_celery.install(app{embedded})

@app.task(name="shop.tell", bind=True)
def tell(self, n):
    run = self.request.headers["anarchon"]
    said = {{"job": run["job"], "slot": run["slot"], "token": run["token"], "pid": os.getpid()}}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        line.sendto(json.dumps(said).encode(), ("127.0.0.1", {port}))

for entry in app.conf.beat_schedule.values():
    entry["task"] = "shop.tell"

@signals.beat_init.connect(weak=False)
@signals.beat_embedded_init.connect(weak=False)
def note(signal, sender, **_):
    name = "embedded" if signal is signals.beat_embedded_init else "beat"
    print(f"{{name}} init: {{sorted(sender.scheduler.schedule)}}", flush=True)
"""
POOLS = {
    "prefork": ("-P", "prefork", "-c", "2", "--max-tasks-per-child", "1"),
    "threads": ("-P", "threads", "-c", "2"),
    "solo": ("-P", "solo"),
    "gevent": ("-P", "gevent", "-c", "10"),
}


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    """Where the tasks of one test report to."""
    mailbox = Mailbox()
    yield mailbox
    mailbox.close()


class Workers:
    """Workers of one project whose messages nobody else takes."""

    def __init__(self, celery: Start, folder: Path, mailbox: Mailbox, broker: str) -> None:
        self._celery = celery
        self._left = Outbox(broker, folder.name)
        self._queue = folder.name
        self._mailbox = mailbox
        self.slots: dict[str, list[datetime]] = {}
        self._tokens: set[str] = set()
        self.pids: set[int] = set()

    def start(self, *arguments: str) -> Any:
        quiet = ("--without-gossip", "--without-mingle", "--without-heartbeat")
        return self._celery(
            *("-A", "proj", "worker", "-Q", self._queue, "-l", "info"), *quiet, *arguments
        )

    def read(self, count: int) -> None:
        """Wait for so many more tasks."""
        for _ in range(count):
            said = self._mailbox.next()
            self._note(said)
            self.pids.add(said["pid"])

    def _note(self, said: dict[str, Any]) -> None:
        # a worker that is told to stop may give back to the queue what it has just begun
        if said["token"] not in self._tokens:
            self._tokens.add(said["token"])
            slot = datetime.fromisoformat(said["slot"])
            self.slots.setdefault(said["job"], []).append(slot)

    def read_rest(self) -> None:
        """Read what has come, and take from the queue what the workers left there."""
        while not self._mailbox.is_empty():
            self.read(1)
        self._left.drain()
        for headers in self._left.headers:
            self._note(headers["anarchon"])
        for slots in self.slots.values():
            slots.sort()
        self._left.close()


@pytest.fixture
def workers(celery: Start, tmp_path: Path, mailbox: Mailbox, beats_broker: str) -> Workers:
    write(tmp_path, beats_broker, mailbox, embedded=", embedded=True")
    return Workers(celery, tmp_path, mailbox, beats_broker)


def write(
    folder: Path,
    broker: str,
    mailbox: Mailbox,
    *,
    embedded: str | None,
    more: str = "",
    **settings: Any,
) -> None:
    """Write a project that calls ``install``, but for ``None``, and tells of its tasks."""
    tell = TELL.format(embedded=embedded, port=mailbox.port)
    if embedded is None:
        tell = tell.replace("anarchon_celery.install(appNone)", "")
    write_project(
        folder,
        broker,
        jobs=3,
        more=tell + more,
        anarchon_namespace=folder.name,
        task_default_queue=folder.name,
        **settings,
    )


@pytest.mark.parametrize(
    "pool", ["prefork", "threads", "gevent", pytest.param("solo", marks=pytest.mark.soak)]
)
def test_a_worker_runs_the_schedule_and_does_its_tasks(pool: str, workers: Workers) -> None:
    worker = workers.start(*POOLS[pool])
    workers.read(3 * 6)

    code = worker.end(signal.SIGTERM)

    workers.read_rest()
    assert code == 0
    assert_every_slot_once(workers.slots, jobs=3)
    assert "this worker runs the schedule: jobs=3 store=redis://" in worker.output
    assert worker.output.count("beat init: ['job-0', 'job-1', 'job-2']") == 1
    assert worker.output.count("embedded init: ['job-0', 'job-1', 'job-2']") == 1
    assert worker.output.index("embedded init") < worker.output.index("Sending due task")
    assert "Traceback" not in worker.output
    if pool == "prefork":
        assert len(workers.pids) >= 3 * 6


def test_several_workers_publish_each_slot_once_though_one_is_killed(workers: Workers) -> None:
    first, second = (workers.start(*POOLS["threads"], "-n", name) for name in ("one", "two"))
    for worker in (first, second):
        worker.read_until("ready.")
    workers.read(3 * 3)
    first.kill()
    workers.read(3 * 6)

    assert second.end(signal.SIGTERM) == 0

    workers.read_rest()
    # what the first had taken from the queue died with it
    for slots in workers.slots.values():
        assert len(set(slots)) == len(slots)
    assert "Sending due task" in second.output


@pytest.mark.parametrize("installed", ["", None], ids=["installed", "by the setting alone"])
def test_a_setting_may_decide_it(
    celery: Start, tmp_path: Path, mailbox: Mailbox, beats_broker: str, installed: str | None
) -> None:
    write(tmp_path, beats_broker, mailbox, embedded=installed, anarchon_embedded=True)
    workers = Workers(celery, tmp_path, mailbox, beats_broker)
    worker = workers.start(*POOLS["solo"])

    workers.read(3)

    assert worker.end(signal.SIGTERM) == 0


def test_its_thread_is_replaced_when_it_ends(
    celery: Start, tmp_path: Path, mailbox: Mailbox, beats_broker: str
) -> None:
    write(tmp_path, beats_broker, mailbox, embedded=", embedded=True", more=END_ITS_THREAD)
    workers = Workers(celery, tmp_path, mailbox, beats_broker)
    worker = workers.start(*POOLS["prefork"])
    workers.read(3)

    worker.send(signal.SIGWINCH)
    worker.read_until("the scheduler's thread has ended: SystemExit")
    worker.read_until("start job=")
    workers.read(3 * 3)

    assert worker.end(signal.SIGTERM) == 0
    workers.read_rest()
    for slots in workers.slots.values():
        assert len(set(slots)) == len(slots)


def test_nothing_is_claimed_once_the_worker_is_told_to_shut_down(
    celery: Start, tmp_path: Path, mailbox: Mailbox, beats_broker: str
) -> None:
    write(tmp_path, beats_broker, mailbox, embedded=", embedded=True", more=LONG)
    workers = Workers(celery, tmp_path, mailbox, beats_broker)
    worker = workers.start(*POOLS["threads"])
    worker.read_until("LONG BEGINS")

    worker.send(signal.SIGTERM)
    worker.read_until("worker: Warm shutdown")
    before = worker.output
    assert worker.end() == 0

    # the task goes on for seconds, and slots go by
    after = worker.output.removeprefix(before)
    assert "LONG ENDS" in after
    assert after.count("start job=") <= 3


def test_a_mistake_in_an_entry_ends_the_worker(
    celery: Start, tmp_path: Path, mailbox: Mailbox, beats_broker: str
) -> None:
    more = "\napp.conf.beat_schedule['job-0']['expires'] = 5\n"
    write(tmp_path, beats_broker, mailbox, embedded=", embedded=True", more=more)

    worker = Workers(celery, tmp_path, mailbox, beats_broker).start(*POOLS["solo"])

    assert worker.end() == 1
    assert "write it inside options" in worker.output


class TestStep:
    """Whether a worker runs the schedule at all."""

    @pytest.mark.parametrize(
        ("asked", "configured", "runs"),
        [
            (None, None, False),
            (None, True, True),
            (True, None, True),
            (False, True, False),
        ],
    )
    def test_the_call_goes_before_the_setting(
        self, app: Celery, asked: bool | None, configured: bool | None, runs: bool
    ) -> None:
        if configured is not None:
            app.conf.anarchon_embedded = configured

        anarchon_celery.install(app, embedded=asked)

        assert EmbeddedStep in app.steps["worker"]
        assert includes(_Worker(app, "celery.concurrency.solo")) is runs

    def test_what_is_neither_yes_nor_no_is_refused(self, app: Celery) -> None:
        app.conf.anarchon_embedded = "no"
        anarchon_celery.install(app)

        with pytest.raises(ConfigurationError) as refused:
            includes(_Worker(app, "celery.concurrency.solo"))

        assert refused.value.option == "anarchon_embedded"

    @pytest.mark.parametrize("pool", ["eventlet", "celery.concurrency.eventlet"])
    def test_a_pool_that_cannot_host_it_is_told_in_one_line(
        self, app: Celery, pool: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        anarchon_celery.install(app, embedded=True)

        assert includes(_Worker(app, pool)) is False

        (said,) = [r.getMessage() for r in caplog.records if r.name == "anarchon.celery"]
        assert "its eventlet pool cannot host it; choose prefork, threads, solo or gevent" in said


class TestForks:
    """What a pool child inherits, with a lock held by a thread that it does not have."""

    @pytest.mark.parametrize(
        "lock",
        [
            "type(app).amqp.lock",
            "app.amqp._event_dispatcher.mutex",
            "app.clock.mutex",
            "before_task_publish.lock",
        ],
    )
    def test_a_child_waits_for_no_lock_that_the_scheduler_held(
        self, tmp_path: Path, lock: str
    ) -> None:
        script = tmp_path / "forks.py"
        script.write_text(FORKS.replace("LOCK", lock))

        done = subprocess.run(
            [sys.executable, str(script)], capture_output=True, text=True, timeout=20
        )

        assert (done.returncode, done.stdout) == (0, "the child has published\n"), done.stderr

    def test_a_child_says_no_goodbye_on_the_connection_of_its_parent(self) -> None:
        said: list[str] = []

        class Line:
            def release(self) -> None:
                said.append("goodbye")

        opened: Any = [(Line(), None)]

        _close_all(opened, os.getpid() + 1)
        assert said == []

        _close_all(opened, os.getpid())
        assert said == ["goodbye"]


def includes(worker: "_Worker") -> bool:
    return EmbeddedStep(worker).include_if(worker)


class _Worker:
    def __init__(self, app: Celery, pool: str) -> None:
        self.app = app
        self.pool_cls = pool


LONG = """
import threading

@app.task(name="shop.long")
def long(n):
    print("LONG BEGINS", flush=True)
    threading.Event().wait(4)
    print("LONG ENDS", flush=True)

app.conf.beat_schedule["long"] = {"task": "shop.long", "schedule": 1.0, "args": [0]}
"""

FORKS = """
import os, threading
from celery import Celery
from celery.signals import before_task_publish
from anarchon_celery.embedded_forks import forget_locks_in_children

app = Celery("proj", broker="memory://", set_as_current=False)
app.conf.task_send_sent_event = True
forget_locks_in_children(app)
before_task_publish.connect(lambda **_: None, weak=False)
held, done = threading.Event(), threading.Event()

def hold():
    with LOCK:
        held.set()
        done.wait()

threading.Thread(target=hold, daemon=True).start()
held.wait()
if os.fork() == 0:
    app.send_task("proj.note")
    print("the child has published", flush=True)
    os._exit(0)
os.wait()
done.set()
"""


def test_a_text_is_no_answer_to_whether_workers_run_the_schedule() -> None:
    app = Celery("shop", broker="memory://", set_as_current=False)

    with pytest.raises(ConfigurationError) as raised:
        anarchon_celery.install(app, embedded="no")  # type: ignore[arg-type]

    assert (raised.value.option, raised.value.fix) == ("embedded", "write True or False")
