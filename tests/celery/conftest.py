"""Apps with a broker in this process, and real workers on real brokers."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from celery import Celery
from kombu.transport.memory import Channel

from tests.celery.beats import Outbox, Start
from tests.celery.mailbox import Mailbox
from tests.celery.project import make_app
from tests.programs import Program
from tests.servers import ServersForTests
from tests.servers.redis import RedisServer

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def app() -> Iterator[Celery]:
    """An app whose broker is in this process, empty."""
    app = make_app("memory://")
    yield app
    app.close()
    Channel.queues.clear()


@pytest.fixture(scope="module")
def mailbox() -> Iterator[Mailbox]:
    """Where the workers of this module's tests report to."""
    mailbox = Mailbox()
    yield mailbox
    mailbox.close()


@pytest.fixture(scope="module")
def redis_broker(servers: ServersForTests) -> RedisServer:
    """The Redis that all tests share."""
    server = servers.get("redis-8.0")
    assert isinstance(server, RedisServer)
    return server


@pytest.fixture(scope="module")
def redis_worker(redis_broker: RedisServer, mailbox: Mailbox) -> Iterator[str]:
    """A worker process on Redis; its broker's URL."""
    url = redis_broker.url(database=9)
    with _Worker({"PROJECT_BROKER": url, "PROJECT_REPORT_TO": str(mailbox.port)}):
        yield url


@pytest.fixture(scope="module")
def folder_worker(tmp_path_factory: pytest.TempPathFactory, mailbox: Mailbox) -> Iterator[Path]:
    """A worker process on a broker that is a folder; that folder."""
    folder = tmp_path_factory.mktemp("broker")
    for name in ("messages", "processed", "control"):
        (folder / name).mkdir()
    environment = {"PROJECT_BROKER": "filesystem://", "PROJECT_FOLDER": str(folder)}
    with _Worker({**environment, "PROJECT_REPORT_TO": str(mailbox.port)}):
        yield folder


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Start]:
    """Start `python -m` with these arguments, in the folder of the test."""
    started: list[Program] = []

    def begin(*arguments: str, **environment: str) -> Program:
        started.append(Program(tmp_path, *arguments, **environment))
        return started[-1]

    yield begin
    for each in started:
        each.kill()


@pytest.fixture
def celery(program: Start) -> Start:
    """Start `celery` with these arguments, in the folder of the test."""
    return partial(program, "celery")


@pytest.fixture
def beats_broker(redis_broker: RedisServer) -> str:
    """The broker, and the store, of projects whose beats run in processes."""
    return redis_broker.url(database=10)


@pytest.fixture
def outbox(beats_broker: str) -> Iterator[Outbox]:
    """What these publish."""
    outbox = Outbox(beats_broker)
    yield outbox
    outbox.close()


class _Worker:
    """One `celery worker` process."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment

    def __enter__(self) -> None:
        command = [sys.executable, "-m", "celery", "-A", "tests.celery.worker", "worker"]
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "warning"]
        self._process = subprocess.Popen(
            [*command, "-P", "solo", "-Q", "celery,aside", *quiet],
            cwd=ROOT,
            env={
                **os.environ,
                "PYTHONPATH": f"{ROOT}:{ROOT / 'integrations'}",
                **self._environment,
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
