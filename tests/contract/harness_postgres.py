"""PostgreSQL, seen from behind; the adapter gets the rights that its package names, no more."""

from __future__ import annotations

import atexit
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING

import asyncpg

import anarchon.backends.postgres as package
from anarchon.backends.postgres import PostgresBackend, PostgresStore
from anarchon.backends.postgres.schema import migrations
from anarchon.clock import SystemClock
from anarchon_contract.leases.harness import NAMESPACE, Feature
from tests.servers import Server, Servers, ServersForTests
from tests.servers.pgbouncer import PgBouncerServer, before
from tests.servers.postgres import PostgresServer

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

#: What must not matter: a zone with odd clock changes, commits nobody waits for.
HOSTILE = {"timezone": "America/St_Johns", "synchronous_commit": "off"}
DATABASE = "contract"
#: Between a server and the pooler before it.
POOLED = "-behind-"


@cache
def _servers() -> ServersForTests:
    servers = Servers()
    atexit.register(servers.close)
    return ServersForTests(servers)


def grants(role: str) -> str:
    """Return the statements of the package's documentation, for this role."""
    assert package.__doc__
    _, _, after = package.__doc__.partition("::\n\n")
    statements, _, _ = after.partition("\n\n")
    assert "grant" in statements
    return statements.replace("service", role)


def _server_and_way(name: str) -> tuple[PostgresServer, PostgresServer | PgBouncerServer]:
    """Return a server, and what its clients connect to."""
    version, _, pooler = name.partition(POOLED)
    if pooler:
        return _pooled(version, pooler)
    server = _servers().get(name)
    assert isinstance(server, PostgresServer)
    return server, server


@cache
def _pooled(version: str, pooler: str) -> tuple[PostgresServer, PgBouncerServer]:
    # a server of its own: the pooler keeps connections open
    server = _servers().start(version)
    assert isinstance(server, PostgresServer)
    bouncer = _servers().start(pooler, *before(server))
    assert isinstance(bouncer, PgBouncerServer)
    return server, bouncer


@asynccontextmanager
async def open_harness(name: str) -> AsyncIterator[PostgresHarness]:
    server, way = _server_and_way(name)
    await _prepare(server)
    admin = await asyncpg.connect(server.url(DATABASE))
    url = way.url(DATABASE, user="service", password="s3cr€t/@")
    try:
        yield PostgresHarness(admin, url, is_pooled=way is not server)
    finally:
        await admin.close()


@asynccontextmanager
async def open_held_harness(name: str) -> AsyncIterator[HeldPostgresHarness]:
    async with open_harness(name) as harness:
        held = HeldPostgresHarness(harness)
        await held.take_hold()
        try:
            yield held
        finally:
            await held.let_go()


async def _prepare(server: Server) -> None:
    assert isinstance(server, PostgresServer)
    root = await asyncpg.connect(server.url())
    try:
        if await root.fetchval("select true from pg_database where datname = $1", DATABASE):
            return
        await root.execute("create role owner login; create role service login")
        await root.execute(f"create database {DATABASE}")
        await root.execute(f"grant create on database {DATABASE} to owner")
        for setting, value in HOSTILE.items():
            await root.execute(f"alter database {DATABASE} set {setting} = '{value}'")
    finally:
        await root.close()
    store = PostgresBackend(server.url(DATABASE, user="owner")).connect(NAMESPACE)
    await store.open()
    await store.close()
    owner = await asyncpg.connect(server.url(DATABASE, user="owner"))
    await owner.execute(grants("service"))
    await owner.close()


class PostgresHarness:
    features = frozenset({Feature.SERVER_CLOCK, Feature.SCHEMA})

    def __init__(self, admin: Connection, url: str, *, is_pooled: bool = False) -> None:
        self._admin = admin
        self._backend = PostgresBackend(url)
        self._is_pooled = is_pooled

    def connect(self, namespace: str = NAMESPACE) -> PostgresStore:
        return self._backend.connect(namespace)

    async def wipe(self) -> None:
        await self._admin.execute(
            "truncate anarchon.job, anarchon.edition, anarchon.run, anarchon.attempt;"
            f"delete from anarchon.migration where version > {len(migrations())}"
        )

    async def empty(self) -> None:
        await self._admin.execute(
            "delete from anarchon.job; delete from anarchon.edition;"
            " delete from anarchon.run; delete from anarchon.attempt"
        )

    async def lapse(self, job: str, slot: datetime) -> None:
        done = await self._admin.execute(
            "update anarchon.run set expires = anarchon.store_time() - interval '1 second'"
            " where (namespace, job, slot) = ($1, $2, $3) and expires is not null",
            *(NAMESPACE, job, slot),
        )
        assert done == "UPDATE 1", "it has no lease"

    async def lower_floor(self, jobs: Sequence[str], floor: datetime) -> None:
        done = await self._admin.execute(
            "update anarchon.job set floor = $1, newest = $1"
            " where namespace = $2 and job = any ($3)",
            *(floor, NAMESPACE, list(jobs)),
        )
        assert done == f"UPDATE {len(jobs)}", "a job has no record"

    async def raise_fence(self, job: str, fence: int) -> None:
        done = await self._admin.execute(
            "update anarchon.job set fence = $1 where (namespace, job) = ($2, $3)",
            *(fence, NAMESPACE, job),
        )
        assert done == "UPDATE 1", "it has no record"

    async def age_fingerprint(self, job: str, fingerprint: str, by: timedelta) -> None:
        done = await self._admin.execute(
            "update anarchon.edition set last_seen = last_seen - $4::interval"
            " where (namespace, job, fingerprint) = ($1, $2, $3)",
            *(NAMESPACE, job, fingerprint, by),
        )
        assert done == "UPDATE 1", "it was never seen"

    async def stamp_newer_version(self) -> None:
        await self._admin.execute(
            "insert into anarchon.migration (version) values ($1)", len(migrations()) + 1
        )

    async def leftovers(self) -> Sequence[str]:
        left = await self._admin.fetch(
            "select 'prepared transaction ' || gid from pg_prepared_xacts"
            " union all select 'table ' || oid::regclass from pg_class"
            " where relkind = 'r' and relnamespace::regnamespace::text"
            " not in ('pg_catalog', 'information_schema', 'anarchon')"
        )
        return [*(row[0] for row in left), *await self._connections()]

    async def _connections(self) -> list[str]:
        # the server hears of a closed connection a moment after we closed it
        others: list[str] = []
        for _ in range(100):
            rows = await self._admin.fetch(
                "select state || ': ' || query from pg_stat_activity"
                " where backend_type = 'client backend' and pid <> pg_backend_pid()"
                # between transactions a pooler keeps them open, for whoever comes next
                " and not ($1 and state = 'idle')",
                self._is_pooled,
            )
            others = [str(row[0]) for row in rows]
            if not others:
                break
            await SystemClock().sleep(0.01)
        return others


class HeldPostgresHarness(PostgresHarness):
    def __init__(self, harness: PostgresHarness) -> None:
        vars(self).update(vars(harness))

    async def take_hold(self) -> None:
        """Let the store's clock function read a table and not the server's clock."""
        self._function: str = await self._admin.fetchval(
            "select pg_get_functiondef('anarchon.store_time'::regproc)"
        )
        assert self._function.count("clock_timestamp()") == 1
        held = self._function.replace(
            "clock_timestamp()", "(select c.stands_at from anarchon.clock_held as c)"
        )
        await self._admin.execute(
            "create table anarchon.clock_held (stands_at timestamptz not null);"
            "grant select on anarchon.clock_held to public;"
            "insert into anarchon.clock_held values ('epoch')"
        )
        await self._admin.execute(held)

    async def let_go(self) -> None:
        """Give the store its own clock back."""
        await self._admin.execute(self._function)
        await self._admin.execute("drop table anarchon.clock_held")

    async def set_clock(self, time: datetime) -> None:
        await self._admin.execute("update anarchon.clock_held set stands_at = $1", time)
