"""A connection that is made anew takes longer than a call may; calls come and go meanwhile."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any

import asyncpg
import pytest

from anarchon.backends.postgres import PostgresStore
from anarchon.clock import SystemClock
from anarchon.errors import OutcomeUnknown, StoreError, StoreUnavailable
from tests.cluster.network import Proxy
from tests.servers.process import HOST
from tests.unit.postgres.conftest import Connect, Database, let_the_loop_run

#: In seconds. Connecting takes three of them here and more, where nothing is encrypted and TCP
#: goes no further than the proxy; a call takes two, and up to three.
ROUND_TRIP = 0.2


@pytest.fixture
def way(database: Database) -> Iterator[Proxy]:
    """The way to the server."""
    with Proxy((HOST, database.server.port)) as way:
        yield way


@pytest.fixture
def url(database: Database, way: Proxy) -> str:
    return f"postgresql://postgres@{way.host}:{way.port}/{database.name}"


@dataclass
class Made:
    """What the driver was told to do."""

    attempts: int = 0
    statements: list[str] = field(default_factory=list)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    made = Made()
    connect = asyncpg.connect

    async def counted(*args: Any, **kwargs: Any) -> Any:
        made.attempts += 1
        connection = await connect(*args, **kwargs)
        connection.add_query_logger(lambda record: made.statements.append(record.query))
        return connection

    monkeypatch.setattr(asyncpg, "connect", counted)
    return made


@pytest.fixture
async def lost(connect: Connect, url: str, way: Proxy, made: Made) -> PostgresStore:
    """A store whose connection was lost."""
    store = await connect(url)
    await lose(store, way)
    made.attempts = 0
    made.statements.clear()
    return store


async def lose(store: PostgresStore, way: Proxy) -> None:
    connection = await store._session.connect()
    way.reset()
    while not connection.is_closed():
        await let_the_loop_run()


async def in_time(call: Coroutine[Any, Any, object], seconds: float) -> bool:
    """Tell whether a call was answered before a deadline, as the engine gives one to each."""
    try:
        async with SystemClock().timeout(seconds):
            await call
    except (TimeoutError, OutcomeUnknown, StoreUnavailable):
        return False
    return True


@pytest.mark.parametrize(
    "round_trips", [3.1, 4.5], ids=["not for connecting", "for connecting, but not for asking too"]
)
async def test_calls_without_the_time_to_connect_are_answered_in_the_end(lost, way, round_trips):
    """Or a keeper on a slow network would never renew again once it lost its connection."""
    deadline = round_trips * ROUND_TRIP
    way.slow(ROUND_TRIP / 2)

    answered: list[bool] = []
    while not any(answered) and len(answered) < 8:
        answered.append(await in_time(lost.active(()), deadline))
        await SystemClock().sleep(deadline / 3)
    way.heal()

    assert answered[-1], "never"
    assert not answered[0], "the deadline was no obstacle"


async def test_calls_given_up_one_after_the_other_wait_for_one_attempt(lost, way, made):
    way.black_hole()
    for _ in range(5):
        assert not await in_time(lost.active(()), 0.05)

    way.heal()

    assert (await lost.active(())).answers == ()
    assert made.attempts == 1


async def test_a_slow_attempt_costs_nobody_a_call_who_has_the_time(lost, way, made):
    way.slow(ROUND_TRIP / 2)

    assert (await lost.active(())).answers == ()
    assert made.attempts == 1
    way.heal()


async def test_a_new_connection_costs_one_question_of_ours(lost, made):
    await lost.active(())
    await let_the_loop_run()

    check, call = made.statements
    assert "pg_is_in_recovery" in check
    assert "migration" in check
    assert "tell_time" in call


@pytest.mark.parametrize("turns", range(8))
async def test_closing_during_an_attempt_leaves_nothing(database, lost, way, turns):
    before = asyncio.all_tasks()
    way.slow(0.02)
    assert not await in_time(lost.active(()), 0.02 * turns + 0.001)

    await lost.close()

    assert asyncio.all_tasks() <= before
    way.heal()
    while await database.admin.fetchval(
        "select count(*) from pg_stat_activity"
        " where application_name = 'anarchon' and datname = current_database()"
    ):
        await let_the_loop_run()


async def test_a_failed_attempt_is_told_and_made_again_by_the_next_call(lost, way, made):
    way.cut()
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await lost.active(())
    assert made.attempts == 2

    way.heal()

    assert (await lost.active(())).answers == ()
    assert made.attempts == 3


async def test_an_attempt_that_fails_when_nobody_waits_is_forgotten(lost, way, made):
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, told: complaints.append(told))
    way.black_hole()
    assert not await in_time(lost.active(()), 0.05)

    way.cut()
    attempt = lost._session._connecting._attempt
    await asyncio.wait((attempt,))
    assert isinstance(attempt.exception(), StoreError)
    del attempt
    way.heal()

    assert (await lost.active(())).answers == ()
    assert made.attempts == 2
    gc.collect()
    assert complaints == []


async def test_an_attempt_goes_on_for_as_long_as_the_url_says(connect, url, way):
    store = await connect(f"{url}?connect_timeout=1")
    await lose(store, way)
    way.black_hole()

    with pytest.raises(StoreUnavailable) as raised:
        await store.active(())

    assert isinstance(raised.value.__cause__, TimeoutError)
    way.heal()
    assert (await store.active(())).answers == ()
