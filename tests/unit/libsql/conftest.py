"""A libSQL server, as new for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from typing import Any, TypeAlias

import pytest

from anarchon.backends.libsql import LibSQLBackend, LibSQLStore
from anarchon.backends.libsql.pipeline import Pipeline
from anarchon.store import Registration
from anarchon_contract.leases.questions import JOB, Asker
from tests.cluster.network import Proxy
from tests.servers import ServersForTests
from tests.servers.process import HOST
from tests.servers.sqld import SqldServer

NAMESPACE = "default"

Connect: TypeAlias = Callable[..., Awaitable[LibSQLStore]]
BeforeTheWrite: TypeAlias = Callable[[LibSQLStore, Callable[[], object]], None]


@pytest.fixture
def server(servers: ServersForTests) -> SqldServer:
    server = servers.get("sqld")
    assert isinstance(server, SqldServer)
    server.wipe()
    return server


@pytest.fixture
async def connect(server: SqldServer) -> AsyncIterator[Connect]:
    """A way to open stores; they are closed after the test."""
    async with AsyncExitStack() as stack:

        async def opened(url: str | None = None) -> LibSQLStore:
            store = LibSQLBackend(url or server.url()).connect(NAMESPACE)
            stack.push_async_callback(store.close)
            await store.open()
            return store

        yield opened


@pytest.fixture
async def store(connect: Connect) -> LibSQLStore:
    return await connect()


@pytest.fixture
async def ask(store: LibSQLStore) -> Asker:
    return Asker(store)


async def meet(server: SqldServer, store: LibSQLStore, *jobs: str) -> datetime:
    """Let jobs have been met long ago; return the server's time."""
    time = (await store.active([Registration(job, "v1") for job in jobs])).time
    server.run("update anarchon_job set floor = 0, newest = 0")
    return time


@pytest.fixture
async def due(server: SqldServer, store: LibSQLStore) -> datetime:
    """A slot of ``JOB`` and of "a" to "c", due a minute ago."""
    time = await meet(server, store, JOB, *"abc")
    return time.replace(microsecond=0) - timedelta(minutes=1)


@pytest.fixture
def way(server: SqldServer) -> Iterator[Proxy]:
    """A way to the server."""
    with Proxy((HOST, server.port)) as way:
        yield way


def url_of(way: Proxy) -> str:
    return f"http+libsql://{way.host}:{way.port}"


@pytest.fixture
def flights(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What each batch that is sent is for."""
    sent: list[str] = []
    run = Pipeline.run

    async def counted(pipeline: Any, steps: Any, *, writes: bool = False) -> Any:
        sent.append("writing" if writes else "looking")
        return await run(pipeline, steps, writes=writes)

    monkeypatch.setattr(Pipeline, "run", counted)
    return sent


@pytest.fixture
def before_the_write(monkeypatch: pytest.MonkeyPatch) -> BeforeTheWrite:
    """A way to let something happen once, between a look of a store and its write."""

    def intervene(store: LibSQLStore, act: Callable[[], object]) -> None:
        write, left = store._session.write, [act]

        async def delayed(*asked: Any) -> Any:
            if left:
                done = left.pop()()
                if isinstance(done, Awaitable):
                    await done
            return await write(*asked)

        monkeypatch.setattr(store._session, "write", delayed)

    return intervene
