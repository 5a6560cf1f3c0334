"""A database of its own for each test, on each version."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

import asyncpg
import pytest

from anarchon.backends.postgres import PostgresBackend, PostgresStore
from anarchon.errors import StoreUnavailable
from anarchon.store import ClaimAnswer, Registration
from anarchon_contract.leases.questions import claim_of
from tests.servers import ServersForTests
from tests.servers.postgres import PostgresServer

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

Connect = Callable[..., Awaitable[PostgresStore]]
Answer = TypeVar("Answer")
NAMESPACE = "unit"


@dataclass(frozen=True)
class Database:
    """A database and a superuser's connection to it."""

    server: PostgresServer
    name: str
    admin: Connection

    def url(self, user: str = "postgres") -> str:
        return self.server.url(self.name, user=user)

    async def default_to(self, level: str) -> None:
        """Give sessions that begin from now on this isolation level."""
        await self.admin.execute(
            f"alter database {self.name} set default_transaction_isolation = '{level}'"
        )

    async def lower_floors(self) -> None:
        """Make jobs that never ran known for a day, so that their last slots may be won."""
        # in the order in which the calls lock them, and none that was met since
        await self.admin.execute(
            "with locked as materialized"
            " (select namespace, job from anarchon.job order by namespace, job for update)"
            " update anarchon.job j set floor = floor - interval '24 hours' from locked l"
            " where j.namespace = l.namespace and j.job = l.job"
            " and not exists (select from anarchon.attempt a where a.job = j.job)"
        )

    async def waiter(self, kind: str) -> int:
        """Wait until one session waits for such a lock; return its process id."""
        while True:
            pid = await self.admin.fetchval(
                "select l.pid from pg_locks l join pg_stat_activity a using (pid)"
                " where not l.granted and l.locktype = $1 and a.datname = current_database()",
                kind,
            )
            if pid is not None:
                return int(pid)
            await let_the_loop_run()


async def let_the_loop_run() -> None:
    """Let the loop read what its sockets hold, as it would between two calls of an engine."""
    waiter = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(0.01, waiter.set_result, None)
    await waiter


async def until_it_is_answered(ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """Ask again as the engine does while locks are not to be had."""
    while True:
        try:
            return await ask()
        except StoreUnavailable:
            await let_the_loop_run()


@dataclass(frozen=True)
class Freezing:
    """A client that stands still before the end of a transaction, until it goes on."""

    is_frozen: asyncio.Event = field(default_factory=asyncio.Event)
    goes_on: asyncio.Event = field(default_factory=asyncio.Event)


@pytest.fixture
def freeze_before_the_commit(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Freezing]:
    """A way to let the client that is next to send a commit stand still before it."""

    def freeze() -> Freezing:
        freezing, execute = Freezing(), asyncpg.Connection.execute

        async def executed(connection: Connection, query: str, *arguments: object) -> str:
            if query == "commit" and not freezing.is_frozen.is_set():
                freezing.is_frozen.set()
                await freezing.goes_on.wait()
            return await execute(connection, query, *arguments)

        monkeypatch.setattr(asyncpg.Connection, "execute", executed)
        return freezing

    return freeze


@pytest.fixture(
    params=[
        pytest.param(name, marks=pytest.mark.xdist_group(name))
        for name in ("postgres-15", "postgres-18")
    ]
)
def server(request: pytest.FixtureRequest, servers: ServersForTests) -> PostgresServer:
    server = servers.get(request.param)
    assert isinstance(server, PostgresServer)
    return server


@pytest.fixture
async def database(server: PostgresServer) -> AsyncIterator[Database]:
    name = f"unit_{secrets.token_hex(4)}"
    root = await asyncpg.connect(server.url())
    await root.execute(f"create database {name}")
    admin = await asyncpg.connect(server.url(name))
    try:
        yield Database(server, name, admin)
    finally:
        await admin.close()
        await root.execute(f"drop database {name} with (force)")
        await root.close()


@pytest.fixture
async def connect(database: Database) -> AsyncIterator[Connect]:
    """A way to open stores; they are closed after the test."""
    async with AsyncExitStack() as stack:

        async def opened(url: str | None = None) -> PostgresStore:
            store = PostgresBackend(url or database.url()).connect(NAMESPACE)
            stack.push_async_callback(store.close)
            await store.open()
            return store

        yield opened


@pytest.fixture
async def store(connect: Connect) -> PostgresStore:
    return await connect()


@pytest.fixture
async def now(store: PostgresStore) -> datetime:
    """The store's time at the start of the test, in whole seconds."""
    return (await store.active(())).time.replace(microsecond=0)


@pytest.fixture
async def due(store: PostgresStore, database: Database, now: datetime) -> datetime:
    """A slot of the jobs "a" to "d", due a minute ago."""
    await store.active([Registration(job, "v1") for job in "abcd"])
    await database.lower_floors()
    return now - timedelta(minutes=1)


Ask = Callable[..., Awaitable[ClaimAnswer]]


@pytest.fixture
def claim() -> Ask:
    """A way to claim a slot of one job."""

    async def ask(
        store: PostgresStore, slot: datetime, token: str = "t", job: str = "a"
    ) -> ClaimAnswer:
        (answer,) = (await store.claim([claim_of(slot, token, job=job)])).answers
        return answer

    return ask
