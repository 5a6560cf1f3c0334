"""A store on a real RabbitMQ, whose queues are deleted after each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import datetime

import pytest

from anarchon.backends.rabbitmq import RabbitMQBackend, RabbitMQStore
from anarchon.clock import SystemClock
from anarchon_contract.claims.harness import NAMESPACE
from anarchon_contract.claims.questions import Asker
from anarchon_contract.leases.questions import MINUTE
from tests.claims.harness_rabbitmq import RabbitMQHarness, add_service, shared_server
from tests.servers.rabbitmq import RabbitServer

Connect = Callable[..., Awaitable[RabbitMQStore]]


@pytest.fixture(
    params=[
        pytest.param("rabbitmq-4", marks=pytest.mark.xdist_group("rabbitmq-4")),
        pytest.param(
            "rabbitmq-3.10", marks=[pytest.mark.xdist_group("rabbitmq-3.10"), pytest.mark.soak]
        ),
    ]
)
def server(request: pytest.FixtureRequest) -> RabbitServer:
    server = shared_server(request.param)
    add_service(server)
    return server


@pytest.fixture
async def harness(server: RabbitServer) -> AsyncIterator[RabbitMQHarness]:
    harness = RabbitMQHarness(server, "classic")
    await harness.wipe()
    yield harness
    assert list(await harness.leftovers()) == []
    await harness.wipe()


@pytest.fixture
async def connect(harness: RabbitMQHarness) -> AsyncIterator[Connect]:
    """A way to open stores, by a URL and a clock of their own; they are closed after the test."""
    async with AsyncExitStack() as stack:

        async def opened(
            url: str | None = None, *, now: Callable[[], datetime] | None = None
        ) -> RabbitMQStore:
            store = RabbitMQBackend(url or harness.url, now=now).connect(NAMESPACE)
            stack.push_async_callback(store.close)
            await store.open()
            return store

        yield opened


@pytest.fixture
async def ask(connect: Connect) -> Asker:
    return Asker(await connect())


@pytest.fixture
def due() -> datetime:
    """A slot that was due a minute ago."""
    return SystemClock().wall().replace(microsecond=0) - MINUTE
