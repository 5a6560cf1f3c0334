"""A broker of each kind, and a fleet in a folder of its own."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.celery.situations.fleet import Situation
from tests.servers import ServersForTests
from tests.servers.process import Server
from tests.servers.redis import RedisServer

BROKERS = {"redis": "redis-8.0", "rabbitmq": "rabbitmq-3.10"}


#: In a whole run the table of outcomes has RabbitMQ; here it costs minutes.
ON_BROKERS = ["redis", pytest.param("rabbitmq", marks=pytest.mark.soak)]


@pytest.fixture(params=ON_BROKERS)
def broker(request: pytest.FixtureRequest, servers: ServersForTests) -> str:
    """The address of a broker that all tests share; theirs are the queues they name."""
    return address_of(servers.get(BROKERS[request.param]))


@pytest.fixture
def situation(servers: ServersForTests, broker: str, tmp_path: Path) -> Iterator[Situation]:
    """A fleet on that broker, whose store is a Redis."""
    yield from a_situation(servers, broker, tmp_path)


@pytest.fixture
def redis_situation(servers: ServersForTests, tmp_path: Path) -> Iterator[Situation]:
    """A fleet whose broker is a Redis, where all brokers are alike."""
    yield from a_situation(servers, address_of(servers.get(BROKERS["redis"])), tmp_path)


def a_situation(servers: ServersForTests, broker: str, folder: Path) -> Iterator[Situation]:
    store = servers.get("redis-8.0")
    assert isinstance(store, RedisServer)
    situation = Situation(folder, broker, store.url(database=11), f"situation-{uuid4().hex[:8]}")
    yield situation
    situation.close()


def address_of(server: Server) -> str:
    return server.url(database=12) if isinstance(server, RedisServer) else server.url()


@pytest.fixture
def queue() -> str:
    """A queue of this test's own."""
    return f"q-{uuid4().hex[:8]}"
