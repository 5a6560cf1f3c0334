"""Who may open a store, and what opening it does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from anarchon.backends.postgres import PostgresBackend
from anarchon.backends.postgres.schema import migrations
from anarchon.errors import StoreError, StoreUnavailable
from anarchon.run import RunState
from anarchon.store import Finish, Outcome, Registration
from tests.contract.harness_postgres import grants
from tests.unit.postgres.conftest import NAMESPACE, Database


@pytest.fixture
async def owner(database: Database) -> AsyncIterator[str]:
    """A role that may create schemas in the database, and nothing else."""
    name = f"owner_{database.name}"
    await database.admin.execute(f"create role {name} login")
    await database.admin.execute(f"grant create on database {database.name} to {name}")
    yield name
    await database.admin.execute(f"drop owned by {name}")
    await database.admin.execute(f"drop role {name}")


@pytest.fixture
async def service(database: Database) -> AsyncIterator[str]:
    """A role without any right."""
    name = f"service_{database.name}"
    await database.admin.execute(f"create role {name} login")
    yield name
    await database.admin.execute(f"drop owned by {name}")
    await database.admin.execute(f"drop role {name}")


async def test_eight_openers_at_once_migrate_once(database, owner):
    stores = [PostgresBackend(database.url(owner)).connect(NAMESPACE) for _ in range(8)]

    await asyncio.gather(*(store.open() for store in stores))

    applied = await database.admin.fetch("select version from anarchon.migration order by 1")
    assert [row["version"] for row in applied] == list(range(1, len(migrations()) + 1))
    await asyncio.gather(*(store.active([Registration("a", "v1")]) for store in stores))
    for store in stores:
        await store.close()


async def test_an_opener_that_was_given_up_leaves_nothing_half_done(database, connect):
    await database.admin.execute(
        "select pg_advisory_lock(hashtextextended('anarchon anarchon', 0))"
    )
    store = PostgresBackend(database.url()).connect(NAMESPACE)
    opening = asyncio.ensure_future(store.open())
    await database.waiter("advisory")

    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    await store.close()
    await database.admin.execute("select pg_advisory_unlock_all()")

    assert await database.admin.fetchval("select to_regnamespace('anarchon')") is None
    await connect()


async def test_two_schemas_of_one_database_do_not_meet(database, connect, claim, due, store):
    other = await connect(database.url() + "?schema=Other%20%22one%22")
    await other.active([Registration("a", "v1")])

    await claim(store, due, "t")

    assert (await other.history(["a"], 10)).answers == ()


async def test_nothing_is_looked_up_outside_the_schema(database, connect, claim):
    """Tables of the same names in front of it on the search path must not matter."""
    await database.admin.execute(
        "create table job (); create table run (); create table attempt ()"
    )

    store = await connect()

    await store.active([Registration("a", "v1")])
    (row,) = await database.admin.fetch("select proconfig from pg_proc where proname = 'claim'")
    assert "search_path=anarchon, pg_temp" in row["proconfig"]


async def test_a_role_that_may_not_create_the_schema_is_told_so(database, service):
    store = PostgresBackend(database.url(service)).connect(NAMESPACE)

    with pytest.raises(StoreError) as raised:
        await store.open()

    assert not isinstance(raised.value, StoreUnavailable)
    assert "let its owner open it once" in raised.value.problem
    assert isinstance(raised.value.__cause__, asyncpg.InsufficientPrivilegeError)


async def test_a_role_that_may_not_use_the_schema_is_told_so(database, store, service):
    other = PostgresBackend(database.url(service)).connect(NAMESPACE)

    with pytest.raises(StoreError) as raised:
        await other.open()

    assert "permission denied for schema anarchon" in raised.value.problem


async def test_the_rights_the_package_names_are_enough(
    database, connect, store, due, claim, service
):
    await database.admin.execute(grants(service))
    other = await connect(database.url(service))

    won = await claim(other, due, "t", "a")
    ended = await other.finish([Finish("a", due, "t", RunState.SUCCESS)])

    assert won.outcome is Outcome.WON
    assert ended.answers == (True,)


async def test_each_of_the_rights_is_needed(database, connect, store, due, claim, service):
    """What is documented may not be more than it takes."""
    await database.admin.execute(grants(service))
    await database.admin.execute(f"revoke update on anarchon.job from {service}")
    other = await connect(database.url(service))

    with pytest.raises(StoreUnavailable):
        await claim(other, due, "t", "a")


async def test_a_schema_that_was_dropped_is_made_again(database, store, due, claim):
    await database.admin.execute("drop schema anarchon cascade")

    with pytest.raises(StoreUnavailable):
        await claim(store, due, "t")

    assert (await claim(store, due, "t")).outcome is Outcome.WON


async def test_no_index_holds_what_a_heartbeat_changes(database, store):
    """An index on it would make each renewal a new row version in every index."""
    indexes = await database.admin.fetch(
        "select indexdef from pg_indexes where schemaname = 'anarchon'"
    )

    assert len(indexes) >= 5
    assert not [row["indexdef"] for row in indexes if "expires" in row["indexdef"]]
