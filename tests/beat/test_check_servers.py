"""`check` asks real servers and real workers, and changes nothing there."""

import json
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from redis import Redis

from tests.programs import ROOT, Program
from tests.servers import ServersForTests
from tests.servers.postgres import PostgresServer
from tests.servers.rabbitmq import RabbitServer
from tests.servers.redis import RedisServer

PROJECT = """
import os
from celery import Celery
from celery.schedules import crontab
from anarchon_celery import install

app = Celery("shop", broker={broker!r})
app.conf.result_expires = None
app.conf.anarchon_store = {store!r}
app.conf.beat_schedule = {{
    "rates": {{
        "task": {task!r},
        "schedule": crontab(hour=8, minute=0),
        "options": {{"anarchon": {{"track": True}}}},
    }},
}}
app.conf.anarchon_namespace = os.environ.get("NAMESPACE", "shop")
if "WITHOUT" not in os.environ:
    install(app)

@app.task(name="shop.rates")
def rates():
    pass
"""
#: Knows a task that the project does not, and is started in its place.
WORKERS_ONLY = "\n@app.task(name='shop.hidden')\ndef hidden(): ...\n"


@dataclass(frozen=True)
class Found:
    code: int
    output: str

    @property
    def problems(self) -> list[str]:
        """What was found that is no note, as the lines tell it."""
        return [line for line in self.output.splitlines()[:-1] if not line.startswith("note: ")]

    @property
    def summary(self) -> str:
        return self.output.splitlines()[-1]


class Project:
    """A project in a folder, its workers, and what a check says of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: list[Program] = []

    def write(self, broker: str, store: str | None = None, task: str = "shop.rates") -> None:
        text = PROJECT.format(broker=broker, store=store or broker, task=task)
        (self.folder / "proj.py").write_text(text)
        (self.folder / "inside.py").write_text(text + WORKERS_ONLY)

    def worker(self, module: str = "proj", **environment: str) -> Program:
        quiet = ("--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "info")
        program = self._start(
            "celery", "-A", module, "worker", "-P", "solo", "-n", "w1@here", *quiet, **environment
        )
        program.read_until("ready.")
        return program

    def check(self, *options: str, **environment: str) -> Found:
        program = self._start("anarchon_beat", "-A", "proj", "check", *options, **environment)
        return Found(program.end(), program.output)

    def _start(self, module: str, *arguments: str, **environment: str) -> Program:
        self._started.append(Program(self.folder, module, *arguments, **environment))
        return self._started[-1]

    def close(self) -> None:
        for program in self._started:
            program.kill()


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    project = Project(tmp_path)
    yield project
    project.close()


@pytest.fixture
def redis(servers: ServersForTests) -> RedisServer:
    server = servers.get("redis-8.0")
    assert isinstance(server, RedisServer)
    with Redis.from_url(server.url(database=13)) as client:
        client.flushdb()
    return server


# ---------------------------------------------------------------- workers


def test_a_worker_that_follows_runs_leaves_nothing_to_say(
    project: Project, redis: RedisServer
) -> None:
    project.write(redis.url(database=13))
    worker = project.worker()

    found = project.check()

    assert (found.code, found.problems) == (0, [])
    assert "with 1 worker that answered: no errors, no warnings" in found.summary
    worker.end(signal.SIGTERM)


def test_a_worker_without_the_integration_is_named_and_logs_no_error(
    project: Project, redis: RedisServer
) -> None:
    project.write(redis.url(database=13))
    worker = project.worker(WITHOUT="1")

    found = project.check()

    assert found.code == 1
    assert found.problems == [
        "warning: job 'rates': track: worker w1@here does not follow their runs; call"
        " anarchon_celery.install(app) where the app is made, and start it anew"
    ]
    worker.end(signal.SIGTERM)
    assert "ERROR" not in worker.output


def test_a_worker_of_another_namespace_is_named(project: Project, redis: RedisServer) -> None:
    project.write(redis.url(database=13))
    project.worker(NAMESPACE="staging")

    found = project.check()

    assert found.code == 1
    (problem,) = found.problems
    assert "worker w1@here follows runs of namespace 'staging' in redis://" in problem
    assert problem.endswith("give both the same anarchon_store and anarchon_namespace")


def test_a_task_that_only_a_worker_knows_is_known(project: Project, redis: RedisServer) -> None:
    project.write(redis.url(database=13), task="shop.hidden")
    project.worker("inside")

    found = project.check()

    assert (found.code, found.problems) == (0, [])


def test_a_task_that_nobody_knows_may_be_one_that_a_worker_knows(
    project: Project, redis: RedisServer
) -> None:
    project.write(redis.url(database=13), task="shop.hiden")
    project.worker("inside")

    found = project.check()

    assert found.code == 1
    assert found.problems == [
        "warning: job 'rates': task: 'shop.hiden' is known neither here nor to a worker that"
        " answered; did you mean 'shop.hidden'?"
    ]


def test_no_worker_at_all_is_said_and_no_mistake(project: Project, redis: RedisServer) -> None:
    project.write(redis.url(database=13))

    found = project.check()

    assert found.code == 0
    assert "with no workers that answered" in found.summary


def test_workers_on_rabbitmq_are_asked_too(
    project: Project, servers: ServersForTests, tmp_path: Path
) -> None:
    server = servers.get("rabbitmq-3.10")
    assert isinstance(server, RabbitServer)
    project.write(server.url(), f"sqlite:///{tmp_path}/jobs.db")
    project.worker(WITHOUT="1")

    found = project.check()

    assert found.code == 1
    assert "worker w1@here does not follow their runs" in found.problems[0]


# ---------------------------------------------------------------- servers


def test_a_store_is_left_without_a_key(project: Project, redis: RedisServer) -> None:
    project.write("memory://", redis.url(database=13))

    found = project.check()

    assert found.code == 0
    assert "(Redis 8.0." in found.summary
    assert "nothing of this version is there yet" in found.output
    with Redis.from_url(redis.url(database=13)) as client:
        assert client.dbsize() == 0


def test_no_task_is_sent(project: Project, redis: RedisServer) -> None:
    project.write(redis.url(database=13))

    project.check()

    with Redis.from_url(redis.url(database=13)) as client:
        assert client.llen("celery") == 0
        assert list(client.scan_iter("anarchon*")) == []


def test_a_store_that_may_delete_our_keys_is_a_doubt(
    project: Project, servers: ServersForTests
) -> None:
    options = ("--maxmemory", "50mb", "--maxmemory-policy", "allkeys-lru")
    server = servers.start("redis-8.0", *options)
    assert isinstance(server, RedisServer)
    project.write("memory://", server.url())

    found = project.check()

    assert found.code == 1
    assert "maxmemory-policy allkeys-lru" in found.problems[0]
    server.stop()


def test_a_standby_is_told(project: Project, servers: ServersForTests) -> None:
    server = servers.start("postgres-18")
    assert isinstance(server, PostgresServer)
    server.stop()
    (server.folder / "data" / "standby.signal").touch()
    server.start()
    project.write("memory://", server.url())

    found = project.check()

    assert found.code == 2
    assert "is a standby, which can grant nothing; name the primary" in found.problems[0]
    server.stop()


def test_tables_of_a_later_version_are_a_mistake(
    project: Project, servers: ServersForTests, redis: RedisServer
) -> None:
    project.write("memory://", redis.url(database=13))
    with Redis.from_url(redis.url(database=13)) as client:
        client.set("anarchon:shop:layout", 99)

    found = project.check()

    assert found.code == 2
    assert "its keys have layout 99" in found.problems[0]


def test_servers_that_do_not_answer_are_not_waited_for_long(
    project: Project, servers: ServersForTests
) -> None:
    server = servers.start("redis-8.0")
    assert isinstance(server, RedisServer)
    project.write(server.url())
    server.pause()

    found = project.check("--json")

    assert found.code == 3
    told = [each["problem"] for each in json.loads(found.output)["findings"]]
    assert any(text.startswith("the broker redis://127.0.0.1:") for text in told)
    assert any("did not answer" in text or "Timeout" in text for text in told)
    server.resume()
    server.stop()


def test_offline_asks_no_server(project: Project, servers: ServersForTests) -> None:
    project.write("redis://127.0.0.1:1/0")

    found = project.check("--offline")

    assert (found.code, found.problems) == (0, [])


# ---------------------------------------------------------------- the older Celery


def test_a_date_that_no_month_has_is_told_with_its_entry_where_celery_accepts_it(
    project: Project, servers: ServersForTests
) -> None:
    older = servers.fetched("celery-5.6")
    project.write("memory://")
    text = (project.folder / "proj.py").read_text()
    (project.folder / "proj.py").write_text(
        text.replace("hour=8, minute=0", "day_of_month=30, month_of_year=2")
    )
    path = ":".join(map(str, (older, ROOT, ROOT / "integrations")))

    found = project.check("--offline", PYTHONPATH=path)

    assert found.code == 2
    assert found.problems[0].startswith("error: job 'rates': cron: ")
    assert "never happens: no month has such a day" in found.problems[0]
