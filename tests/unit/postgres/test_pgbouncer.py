"""What the page on backends says of PgBouncer; the whole contract holds behind it, too."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from datetime import datetime

import asyncpg
import pytest

from anarchon.backends.postgres import PostgresBackend, PostgresStore
from anarchon.clock import SystemClock
from anarchon.errors import OutcomeUnknown, StoreRefused, StoreUnavailable
from anarchon.store import Outcome, Registration
from anarchon_contract.claims.contest import contend
from anarchon_contract.leases.questions import JOB, MINUTE, claim_of
from tests.servers import ServersForTests
from tests.servers.pgbouncer import PgBouncerServer, before
from tests.servers.postgres import PostgresServer
from tests.unit.postgres.conftest import NAMESPACE, Database, let_the_loop_run, until_it_is_answered

pytestmark = pytest.mark.xdist_group("postgres-18-behind-pgbouncer-1.18")

CLOCK = SystemClock()
Pool = Callable[..., PgBouncerServer]


@pytest.fixture(scope="module")
def server(servers: ServersForTests) -> Iterator[PostgresServer]:
    """One of its own: poolers keep connections open."""
    server = servers.start("postgres-18")
    assert isinstance(server, PostgresServer)
    yield server
    server.stop()


@pytest.fixture
def pool(servers: ServersForTests, server: PostgresServer) -> Iterator[Pool]:
    """A way to start a pooler with these settings."""
    started: list[PgBouncerServer] = []

    def pooler(*settings: str) -> PgBouncerServer:
        bouncer = servers.start("pgbouncer-1.18", *settings, *before(server))
        assert isinstance(bouncer, PgBouncerServer)
        started.append(bouncer)
        return bouncer

    yield pooler
    for bouncer in started:
        bouncer.stop()


def url_of(bouncer: PgBouncerServer, database: Database) -> str:
    return bouncer.url(database.name, user="postgres")


@pytest.fixture
async def opened(database: Database) -> AsyncIterator[Callable[[PgBouncerServer], PostgresStore]]:
    made: list[PostgresStore] = []

    def store(bouncer: PgBouncerServer) -> PostgresStore:
        made.append(PostgresBackend(url_of(bouncer, database)).connect(NAMESPACE))
        return made[-1]

    yield store
    for one in made:
        await one.close()


async def meet(store: PostgresStore, database: Database) -> datetime:
    """Make the job "a" known for a day; return a slot of it that is due."""
    time = (await store.active([Registration("a", "v1")])).time
    await database.lower_floors()
    return time.replace(microsecond=0) - MINUTE


async def outcome(store: PostgresStore, slot: datetime, token: str = "t") -> Outcome:
    return (await store.claim([claim_of(slot, token, job="a")])).answers[0].outcome


# ---------------------------------------------------------------- races


@pytest.mark.cluster
async def test_of_8_processes_one_wins_each_slot(database, pool, opened):
    """G1"""
    bouncer = pool()
    await opened(bouncer).active([Registration(JOB, "v1")])

    wins = await contend(url_of(bouncer, database), NAMESPACE, slots=100, gap=5)

    assert len(wins) == 100
    assert set(wins.values()) == {1}


@pytest.mark.soak
@pytest.mark.timeout(600)
async def test_of_8_processes_one_wins_each_of_2000_slots(database, pool, opened):
    """G1"""
    bouncer = pool()
    await opened(bouncer).active([Registration(JOB, "v1")])

    wins = await contend(url_of(bouncer, database), NAMESPACE, slots=2000, gap=10)

    assert len(wins) == 2000
    assert set(wins.values()) == {1}


# ---------------------------------------------------------------- what goes wrong


async def test_a_session_that_ends_behind_it_leaves_the_outcome_open(database, pool, opened):
    store = opened(pool())
    slot = await meet(store, database)
    user = await asyncpg.connect(database.url())
    await user.execute("begin; select from anarchon.job where job = 'a' for update")
    call = asyncio.ensure_future(outcome(store, slot))
    pid = await database.waiter("transactionid")

    await database.admin.execute("select pg_terminate_backend($1)", pid)
    with pytest.raises(OutcomeUnknown):
        await call
    await user.close()

    assert await outcome(store, slot) is Outcome.WON


async def test_a_client_that_stands_still_in_its_transaction_holds_no_job_for_long(
    database, pool, opened, freeze_before_the_commit
):
    await database.default_to("serializable")
    bouncer = pool()
    frozen, other = opened(bouncer), opened(bouncer)
    slot = await meet(frozen, database)
    freezing = freeze_before_the_commit()
    call = asyncio.ensure_future(outcome(frozen, slot))
    await freezing.is_frozen.wait()

    won = await until_it_is_answered(lambda: outcome(other, slot, "other"))
    freezing.goes_on.set()

    assert won is Outcome.WON
    with pytest.raises(OutcomeUnknown):
        await call
    assert await outcome(frozen, slot) is Outcome.RUNNING


async def test_a_call_given_up_where_the_pool_is_full_leaves_a_store_that_answers(
    database, pool, opened
):
    bouncer = pool("default_pool_size = 1")
    store = opened(bouncer)
    slot = await meet(store, database)
    hog = await asyncpg.connect(url_of(bouncer, database), statement_cache_size=0)
    await hog.execute("begin; select 1")
    call = asyncio.ensure_future(outcome(store, slot))
    for _ in range(10):
        await let_the_loop_run()

    call.cancel()
    with suppress(asyncio.CancelledError):
        await call
    await hog.close()

    assert await outcome(store, slot) is Outcome.WON


async def test_a_server_that_is_back_is_asked_after_server_login_retry(servers):
    server = servers.start("postgres-18")
    quick = ("server_login_retry = 1", "server_connect_timeout = 2")
    bouncer = servers.start("pgbouncer-1.18", *quick, *before(server))
    store = PostgresBackend(bouncer.url(user="postgres")).connect(NAMESPACE)
    await store.open()

    server.kill()
    assert not await is_answering(store)
    server.start()

    while not await is_answering(store):
        await let_the_loop_run()
    await store.close()
    bouncer.stop()
    server.stop()


async def is_answering(store: PostgresStore) -> bool:
    """Ask as the engine does: while it waits for its server, a pooler answers nobody."""
    try:
        async with CLOCK.timeout(3):
            await store.active(())
    except (StoreUnavailable, OutcomeUnknown, TimeoutError):
        return False
    return True


async def test_what_it_cannot_pass_on_at_the_start_of_a_session_is_refused(database, pool):
    url = f"{url_of(pool(), database)}?statement_timeout=5000"
    store = PostgresBackend(url).connect(NAMESPACE)

    with pytest.raises(StoreRefused) as raised:
        await store.open()

    assert raised.value.problem == "unsupported startup parameter: statement_timeout"


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("postgres@{0}/nowhere", 'database "nowhere" does not exist'),
        ("nobody@{0}/postgres", "no such user"),
    ],
)
async def test_what_the_server_does_not_have_is_refused(database, pool, place, said):
    address = f"127.0.0.1:{pool().port}"
    store = PostgresBackend(f"postgresql://{place.format(address)}").connect(NAMESPACE)

    with pytest.raises(StoreRefused) as raised:
        await store.open()

    assert raised.value.problem == said


async def test_it_may_be_told_to_ignore_that(database, pool, opened):
    bouncer = pool("ignore_startup_parameters = statement_timeout")
    store = PostgresBackend(f"{url_of(bouncer, database)}?statement_timeout=5000").connect(
        NAMESPACE
    )

    await store.open()

    await store.close()


@pytest.mark.parametrize("setting", ["server_reset_query_always = 1", "pool_mode = session"])
async def test_these_settings_cost_no_answer(database, pool, opened, setting):
    store = opened(pool(setting))

    assert await outcome(store, await meet(store, database)) is Outcome.WON


async def test_a_pool_of_statements_does_once_the_schema_is_there(database, pool, opened):
    bouncer = pool("pool_mode = statement")
    with pytest.raises(StoreUnavailable) as raised:
        await opened(bouncer).open()
    assert "transaction blocks not allowed in statement pooling mode" in raised.value.problem
    owner = PostgresBackend(database.url()).connect(NAMESPACE)
    await owner.open()
    await owner.close()

    store = opened(bouncer)

    assert await outcome(store, await meet(store, database)) is Outcome.WON
