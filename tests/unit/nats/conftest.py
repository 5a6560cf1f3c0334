"""A server of its own for each test, on each version."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack
from datetime import datetime
from pathlib import Path
from typing import cast

import pytest

from anarchon.backends.nats import NatsBackend
from anarchon_contract.claims.questions import Asker
from anarchon_contract.leases.questions import MINUTE
from tests.cluster.network import Proxy
from tests.servers import ServersForTests
from tests.servers.nats import NatsServer
from tests.unit.nats.admin import NAMESPACE, Admin

Start = Callable[..., NatsServer]
Connect = Callable[..., Awaitable[Asker]]

VERSIONS = [
    pytest.param("nats-2.15", marks=pytest.mark.xdist_group("nats-2.15")),
    pytest.param("nats-2.9", marks=[pytest.mark.xdist_group("nats-2.9"), pytest.mark.soak]),
]


@pytest.fixture(params=VERSIONS)
def start(
    request: pytest.FixtureRequest, servers: ServersForTests, tmp_path: Path
) -> Iterator[Start]:
    """A way to start servers, with this configuration if one is given; killed after the test."""
    with ExitStack() as stack:

        def started(config: str | None = None, *options: str) -> NatsServer:
            if config is not None:
                path = tmp_path / "server.conf"
                path.write_text(config)
                options = ("-c", str(path), *options)
            server = cast(NatsServer, servers.start(request.param, *options))
            stack.callback(server.kill)
            return server

        yield started


@pytest.fixture
def server(start: Start) -> NatsServer:
    return start()


@pytest.fixture
async def admin(server: NatsServer) -> AsyncIterator[Admin]:
    async with Admin.of(server.url()) as admin:
        yield admin


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """A way to open stores; they are closed after the test."""
    async with AsyncExitStack() as stack:

        async def opened(url: str, namespace: str = NAMESPACE) -> Asker:
            store = NatsBackend(url).connect(namespace)
            stack.push_async_callback(store.close)
            await store.open()
            return Asker(store)

        yield opened


@pytest.fixture
async def ask(server: NatsServer, connect: Connect) -> Asker:
    return await connect(server.url())


@pytest.fixture
def way(server: NatsServer) -> Iterator[Proxy]:
    """A way to the server that can be cut."""
    with Proxy(("127.0.0.1", server.port)) as proxy:
        yield proxy


@pytest.fixture
async def cut_off(connect: Connect, way: Proxy) -> Asker:
    """Somebody who asks by that way."""
    return await connect(f"nats://127.0.0.1:{way.port}")


@pytest.fixture
async def due(ask: Asker) -> datetime:
    """A slot that was due a minute ago."""
    return (await ask.time()).replace(microsecond=0) - MINUTE
