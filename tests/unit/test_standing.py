"""A look at a store says how it stands, and leaves it as it is."""

import asyncio
import os
import secrets
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
from redis.asyncio import Redis

from anarchon import Scheduler, SchemaMismatch, StoreError, StoreUnavailable
from anarchon.store import LeaseStore
from tests.contract.harness_postgres import grants
from tests.servers import ServersForTests
from tests.servers.postgres import PostgresServer
from tests.servers.redis import RedisServer
from tests.unit.redis.scripted_server import healthy_but, scripted_server

REDIS = [
    pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in ("redis-7.0", "valkey-9")
]


async def open_once(scheduler: Scheduler) -> None:
    await scheduler.history("nothing")


# ---------------------------------------------------------------- any


async def test_a_store_in_memory_says_that_it_is_alone() -> None:
    standing = await Scheduler("memory://").examine_store()

    assert standing.is_prepared
    assert "no other process" in standing.doubts[0]


async def test_a_backend_that_can_only_be_opened_is_not_opened() -> None:
    class Foreign:
        label = "foreign://"

        def connect(self, namespace: str) -> LeaseStore:
            raise AssertionError("it was opened")

    with pytest.raises(StoreError) as raised:
        await Scheduler(Foreign()).examine_store()

    assert raised.value.problem == "cannot be looked at without being opened"


# ---------------------------------------------------------------- SQLite


async def test_a_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    standing = await Scheduler(f"sqlite:///{tmp_path}/jobs.db").examine_store()

    assert standing.server == f"SQLite {sqlite3.sqlite_version}"
    assert not standing.is_prepared
    assert os.listdir(tmp_path) == []


async def test_a_file_with_other_tables_is_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "jobs.db"
    with sqlite3.connect(file) as connection:
        connection.execute("create table other (x)")
    connection.close()
    before = file.read_bytes()

    standing = await Scheduler(f"sqlite:///{file}").examine_store()

    assert not standing.is_prepared
    assert file.read_bytes() == before


async def test_a_file_in_use_is_prepared(tmp_path: Path) -> None:
    scheduler = Scheduler(f"sqlite:///{tmp_path}/jobs 1#%23.db")
    await open_once(scheduler)

    assert (await scheduler.examine_store()).is_prepared


async def test_a_file_of_a_later_version_is_refused(tmp_path: Path) -> None:
    scheduler = Scheduler(f"sqlite:///{tmp_path}/jobs.db")
    await open_once(scheduler)
    with sqlite3.connect(tmp_path / "jobs.db") as connection:
        connection.execute("update anarchon_schema set version = 99")
    connection.close()

    with pytest.raises(SchemaMismatch):
        await scheduler.examine_store()


async def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable) as raised:
        await Scheduler(f"sqlite:///{tmp_path}/gone/jobs.db").examine_store()

    assert raised.value.problem == f"the folder {tmp_path}/gone does not exist"


async def test_what_is_no_database_is_told(tmp_path: Path) -> None:
    (tmp_path / "jobs.db").write_text("hello, I am a letter and not a database" * 20)

    with pytest.raises(StoreError) as raised:
        await Scheduler(f"sqlite:///{tmp_path}/jobs.db").examine_store()

    assert "not a database" in raised.value.problem


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write anywhere")
async def test_a_folder_that_may_not_be_written_is_told(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o500)
    try:
        with pytest.raises(StoreUnavailable):
            await Scheduler(f"sqlite:///{tmp_path}/jobs.db").examine_store()
    finally:
        os.chmod(tmp_path, 0o700)


# ---------------------------------------------------------------- Redis and Valkey


@pytest.mark.parametrize("name", REDIS)
async def test_a_server_is_left_without_a_key(servers: ServersForTests, name: str) -> None:
    server = servers.get(name)
    assert isinstance(server, RedisServer)
    url = server.url(database=12)
    client = Redis.from_url(url)
    await client.flushdb()
    scheduler = Scheduler(url, namespace="standing")

    before = await scheduler.examine_store()
    keys = await client.dbsize()
    await open_once(scheduler)
    after = await scheduler.examine_store()

    assert before.server.startswith("Valkey 9." if name == "valkey-9" else "Redis 7.0.")
    assert (before.is_prepared, keys, after.is_prepared) == (False, 0, True)
    assert before.doubts == ()
    await client.flushdb()
    await client.aclose()


async def test_a_server_that_may_delete_our_keys_is_doubted(servers: ServersForTests) -> None:
    options = ("--maxmemory", "50mb", "--maxmemory-policy", "allkeys-lru")
    server = servers.start("redis-8.0", *options)
    assert isinstance(server, RedisServer)

    (doubt,) = (await Scheduler(f"{server.url()}").examine_store()).doubts

    assert "set it to noeviction" in doubt
    server.stop()


async def test_a_replica_is_refused(servers: ServersForTests) -> None:
    primary = servers.get("redis-8.0")
    server = servers.start("redis-8.0", "--replicaof", "127.0.0.1", str(primary.port))
    assert isinstance(server, RedisServer)

    with pytest.raises(StoreUnavailable) as raised:
        await Scheduler(server.url()).examine_store()

    assert "read-only replica" in raised.value.problem
    # one that is still writing its first file would not stop
    server.kill()


async def test_a_redis_before_7_is_refused() -> None:
    info = b"redis_version:6.2.14\r\nrole:master\r\n"
    answer = b"$%d\r\n%b\r\n" % (len(info), info)

    async with scripted_server(healthy_but(INFO=answer, GET=b"$-1\r\n")) as port:
        with pytest.raises(StoreError) as raised:
            await Scheduler(f"redis://127.0.0.1:{port}").examine_store()

    assert raised.value.problem == "Redis 6.2.14 is too old: 7 or later is needed"


async def test_keys_of_a_later_layout_are_refused() -> None:
    async with scripted_server(healthy_but(GET=b"$1\r\n9\r\n")) as port:
        with pytest.raises(SchemaMismatch):
            await Scheduler(f"redis://127.0.0.1:{port}").examine_store()


async def test_a_server_that_tells_nothing_of_itself_may_do() -> None:
    refusal = b"-NOPERM User default has no permissions to run the 'info' command\r\n"

    # nor is any right missing
    rights = {"SCRIPT": b"+OK\r\n", "EVALSHA": b"*0\r\n"}
    async with scripted_server(healthy_but(INFO=refusal, **rights)) as port:
        standing = await Scheduler(f"redis://127.0.0.1:{port}").examine_store()

    assert (standing.server, standing.is_prepared) == ("Redis", True)


async def test_a_server_that_is_away_is_told() -> None:
    async with scripted_server(healthy_but()) as port:
        pass

    with pytest.raises(StoreUnavailable):
        await Scheduler(f"redis://127.0.0.1:{port}").examine_store()


# ---------------------------------------------------------------- PostgreSQL


@pytest.fixture(
    params=[
        pytest.param(name, marks=pytest.mark.xdist_group(name))
        for name in ("postgres-15", "postgres-18")
    ]
)
async def database(
    request: pytest.FixtureRequest, servers: ServersForTests
) -> AsyncIterator[tuple[PostgresServer, str]]:
    server = servers.get(request.param)
    assert isinstance(server, PostgresServer)
    name = f"standing_{secrets.token_hex(4)}"
    root = await asyncpg.connect(server.url())
    await root.execute(f"create database {name}")
    await root.execute(f"create role {name} login")
    yield server, name
    await root.execute(f"drop database {name} with (force)")
    await root.execute(f"drop role {name}")
    await root.close()


async def test_a_database_is_left_without_our_schema(database: tuple[PostgresServer, str]) -> None:
    server, name = database
    scheduler = Scheduler(server.url(name))

    before = await scheduler.examine_store()
    root = await asyncpg.connect(server.url(name))
    schema = await root.fetchval("select to_regnamespace('anarchon')")
    await open_once(scheduler)
    after = await scheduler.examine_store()
    await root.close()

    assert before.server.startswith("PostgreSQL 1")
    assert (before.is_prepared, schema, after.is_prepared) == (False, None, True)
    assert before.doubts == ()


async def test_a_role_that_may_not_make_the_schema_is_told_to_let_its_owner(
    database: tuple[PostgresServer, str],
) -> None:
    server, name = database

    with pytest.raises(StoreError) as raised:
        await Scheduler(server.url(name, user=name)).examine_store()

    assert "let its owner open it once" in raised.value.problem


async def test_a_role_with_the_least_rights_may_look_at_a_schema_that_is_there(
    database: tuple[PostgresServer, str],
) -> None:
    server, name = database
    await open_once(Scheduler(server.url(name)))
    root = await asyncpg.connect(server.url(name))
    await root.execute(grants(name))
    await root.close()

    assert (await Scheduler(server.url(name, user=name)).examine_store()).is_prepared


async def test_a_schema_of_a_later_version_is_refused(
    database: tuple[PostgresServer, str],
) -> None:
    server, name = database
    await open_once(Scheduler(server.url(name)))
    root = await asyncpg.connect(server.url(name))
    await root.execute("insert into anarchon.migration (version) values (99)")
    await root.close()

    with pytest.raises(SchemaMismatch):
        await Scheduler(server.url(name)).examine_store()


async def test_a_standby_is_refused(servers: ServersForTests) -> None:
    server = servers.start("postgres-18")
    assert isinstance(server, PostgresServer)
    server.stop()
    (server.folder / "data" / "standby.signal").touch()
    await asyncio.to_thread(server.start)

    with pytest.raises(StoreUnavailable) as raised:
        await Scheduler(server.url()).examine_store()

    assert "standby" in raised.value.problem
    server.stop()
