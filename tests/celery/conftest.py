"""Apps with a broker in this process, and real workers on real brokers."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from celery import Celery
from kombu.transport.memory import Channel

from tests.celery.mailbox import Mailbox
from tests.celery.project import make_app
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
