"""What a broker shows of the workers there are."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from dramatiq import Broker, Worker
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.brokers.redis import RedisBroker
from dramatiq.brokers.stub import StubBroker

from anarchon_dramatiq.way import unattended
from tests.dramatiq.bench import declare
from tests.servers import ServersForTests
from tests.servers.rabbitmq import RabbitServer
from tests.servers.redis import RedisServer

pytestmark = pytest.mark.xdist_group("dramatiq-brokers")


@pytest.fixture
def queue() -> str:
    return f"q-{uuid4().hex[:8]}"


@pytest.fixture
def redis(servers: ServersForTests) -> Iterator[Broker]:
    server = servers.get("redis-8.0")
    assert isinstance(server, RedisServer)
    url = server.url(database=11)
    broker = RedisBroker(url=url, namespace=f"n-{uuid4().hex[:8]}", heartbeat_timeout=2_000)
    yield broker
    broker.client.connection_pool.disconnect()


@pytest.fixture
def rabbitmq(servers: ServersForTests) -> Iterator[Broker]:
    server = servers.get("rabbitmq-3.10")
    assert isinstance(server, RabbitServer)
    broker = RabbitmqBroker(url=server.url().rstrip("/") + "/%2F")
    yield broker
    broker.close()


def work_a_little(broker: Broker, queue: str) -> Any:
    """Return what is said of a queue while a worker is at it."""
    actor = declare(broker, lambda: None, queue_name=queue)
    worker = Worker(broker, worker_timeout=50, worker_threads=1)
    worker.start()
    try:
        actor.send()
        broker.join(queue, timeout=20_000)
        return unattended(broker, [queue])
    finally:
        worker.stop(timeout=5_000)


def test_redis_has_heard_of_a_worker_or_not(redis: Broker, queue: str) -> None:
    before = unattended(redis, [queue])
    meanwhile = work_a_little(redis, queue)

    assert before == {queue: "no worker was heard of for 2 s"}
    assert meanwhile == {}


def test_rabbitmq_knows_who_consumes_and_no_queue_is_made(rabbitmq: Broker, queue: str) -> None:
    before = [unattended(rabbitmq, [queue]) for _ in range(2)]
    meanwhile = work_a_little(rabbitmq, queue)
    after = unattended(rabbitmq, [queue])

    assert before == [{queue: f"there is no queue {queue!r}: no worker has run yet"}] * 2
    assert (meanwhile, after) == ({}, {queue: f"no worker is at the queue {queue!r}"})


def test_of_other_brokers_nothing_is_said() -> None:
    assert unattended(StubBroker(), ["default"]) == {}
