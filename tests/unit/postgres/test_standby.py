"""A standby grants nothing: what it knows is of the past."""

from __future__ import annotations

from collections.abc import Iterator

import asyncpg
import pytest

from anarchon.backends.postgres import PostgresBackend
from anarchon.errors import StoreUnavailable
from tests.servers import ServersForTests
from tests.servers.postgres import PostgresServer
from tests.unit.postgres.conftest import NAMESPACE, let_the_loop_run

pytestmark = pytest.mark.xdist_group("postgres-18")


@pytest.fixture
def own(servers: ServersForTests) -> Iterator[PostgresServer]:
    server = servers.start("postgres-18")
    assert isinstance(server, PostgresServer)
    yield server
    server.stop()


async def test_a_server_that_became_a_standby_is_refused_until_it_is_promoted(own):
    store = PostgresBackend(own.url()).connect(NAMESPACE)
    await store.open()
    own.stop()
    (own.folder / "data" / "standby.signal").touch()
    own.start()
    await let_the_loop_run()

    with pytest.raises(StoreUnavailable) as raised:
        await store.active(())
    assert "standby" in raised.value.problem
    with pytest.raises(StoreUnavailable):
        await store.open()

    root = await asyncpg.connect(own.url())
    assert await root.fetchval("select pg_promote()")
    await root.close()
    assert (await store.active(())).answers == ()
    await store.close()


async def test_a_session_on_a_standby_is_refused_by_the_call_itself(own):
    """A pooler may lead each call to another server than the one that was checked."""
    store = PostgresBackend(own.url()).connect(NAMESPACE)
    await store.open()
    await store.close()
    own.stop()
    (own.folder / "data" / "standby.signal").touch()
    own.start()

    root = await asyncpg.connect(own.url())
    with pytest.raises(asyncpg.PostgresError) as raised:
        await root.fetchval("select anarchon.tell_time()")
    assert raised.value.sqlstate == "AN002"
    await root.close()
