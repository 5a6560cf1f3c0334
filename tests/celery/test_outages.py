"""A broker that goes away, freezes and comes back."""

import asyncio
import contextlib
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery
from kombu.exceptions import OperationalError

from anarchon import EventKind
from anarchon.backends.memory import MemoryBackend
from anarchon_celery import scheduler_for
from tests.celery.project import make_app
from tests.celery.runs import publisher_of, run, taken
from tests.servers import ServersForTests
from tests.servers.redis import RedisServer

SECONDS = 8.0


@pytest.fixture
def server(servers: ServersForTests) -> Iterator[RedisServer]:
    server = servers.start("redis-8.0")
    assert isinstance(server, RedisServer)
    yield server
    server.stop()


@pytest.fixture
def app(server: RedisServer) -> Celery:
    return make_app(server.url())


@contextlib.contextmanager
def ends_within(seconds: float) -> Iterator[None]:
    began = time.perf_counter()
    yield
    assert time.perf_counter() - began < seconds


def test_a_broker_that_is_away_is_an_error_within_seconds(app: Celery, server: RedisServer) -> None:
    publisher = publisher_of(app)
    server.stop()

    with ends_within(SECONDS), pytest.raises(OperationalError):
        publisher.publish(run())


def test_a_broker_that_went_away_is_an_error_and_then_used_again(
    app: Celery, server: RedisServer
) -> None:
    publisher = publisher_of(app, args=["x"])
    publisher.publish(run())
    taken(app)
    server.stop()
    with ends_within(SECONDS), pytest.raises(OperationalError):
        publisher.publish(run())

    server.start()
    sent = publisher.publish(run())

    assert taken(app).headers["id"] == sent


def test_a_broker_that_was_restarted_between_two_messages_is_no_error(
    app: Celery, server: RedisServer
) -> None:
    publisher = publisher_of(app)
    publisher.publish(run())
    taken(app)

    server.restart()
    sent = publisher.publish(run())

    assert taken(app).headers["id"] == sent


def test_a_frozen_broker_is_an_error_within_seconds(app: Celery, server: RedisServer) -> None:
    publisher = publisher_of(app)
    publisher.publish(run())
    server.pause()

    try:
        with ends_within(SECONDS), pytest.raises(OperationalError):
            publisher.publish(run())
    finally:
        server.resume()


def test_a_broker_that_went_away_changes_no_timeout_of_other_sockets(
    app: Celery, server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher = publisher_of(app)
    publisher.publish(run())
    server.stop()
    changes: list[float | None] = []
    monkeypatch.setattr(socket, "setdefaulttimeout", changes.append)

    with pytest.raises(OperationalError):
        publisher.publish(run())

    assert changes == []


def test_a_host_that_answers_nothing_is_an_error_within_seconds() -> None:
    # its backlog takes the connection, and nobody ever reads from it
    with socket.create_server(("127.0.0.1", 0), backlog=8) as deaf:
        publisher = publisher_of(make_app(f"amqp://127.0.0.1:{deaf.getsockname()[1]}"))

        with ends_within(SECONDS), pytest.raises(OperationalError):
            publisher.publish(run())


async def test_what_is_due_while_the_broker_is_away_is_published_late_and_once(
    app: Celery, server: RedisServer
) -> None:
    app.conf.beat_schedule = {"job": {"task": "proj.note", "schedule": 4}}
    backend = MemoryBackend()
    fleet = [scheduler_for(app, store=backend, name=str(n)) for n in range(2)]
    failed, published = asyncio.Event(), asyncio.Event()
    for scheduler in fleet:
        scheduler.on(EventKind.ERROR, lambda event: failed.set())
        scheduler.on(EventKind.PUBLISHED, lambda event: published.set())
    server.stop()

    for scheduler in fleet:
        await scheduler.start()
    await failed.wait()
    await asyncio.to_thread(server.start)
    await published.wait()
    for scheduler in fleet:
        await scheduler.stop()

    history = await fleet[0].history("job")
    published_ids = {attempt.detail for attempt in history}
    assert len(published_ids) == len({attempt.slot for attempt in history}) == len(history)
    assert {taken(app).headers["id"] for _ in history} == published_ids
    with app.connection_for_read() as connection:
        channel: Any = connection.default_channel
        assert channel.client.llen("celery") == 0
