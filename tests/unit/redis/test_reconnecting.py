"""A connection that is made anew takes longer than a call may; calls come and go meanwhile."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any

import pytest
from redis.asyncio.connection import AbstractConnection

from anarchon.backends.redis import RedisBackend, RedisStore, connection
from anarchon.backends.redis.settings import Address, Settings
from anarchon.clock import SystemClock
from anarchon.errors import OutcomeUnknown, StoreUnavailable
from tests.cluster.network import Proxy
from tests.servers import Server, ServersForTests
from tests.servers.process import HOST

SERVER = "valkey-9"
pytestmark = pytest.mark.xdist_group(SERVER)

CLOCK = SystemClock()
#: In seconds. Connecting takes two of them here, where nothing is encrypted and TCP goes no
#: further than the proxy; a call takes one.
ROUND_TRIP = 0.2


@pytest.fixture
def server(servers: ServersForTests) -> Server:
    return servers.get(SERVER)


@pytest.fixture
def way(server: Server) -> Iterator[Proxy]:
    """The way to the server."""
    with Proxy((HOST, server.port)) as way:
        yield way


@pytest.fixture
async def store(way: Proxy) -> AsyncIterator[RedisStore]:
    store = RedisBackend(f"redis://{way.host}:{way.port}").connect("slow")
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def lost(store: RedisStore, way: Proxy) -> RedisStore:
    """A store whose connection was lost, and whose attempt at another goes into a black hole."""
    way.reset()
    way.black_hole()
    while not attempts():
        assert not await in_time(store.active(()), 0.05)
    return store


def attempts() -> list[asyncio.Task[Any]]:
    return [task for task in asyncio.all_tasks() if task.get_name() == "anarchon-connect"]


async def in_time(call: Coroutine[Any, Any, object], seconds: float) -> bool:
    """Tell whether a call was answered before a deadline, as the engine gives one to each."""
    try:
        async with CLOCK.timeout(seconds):
            await call
    except (TimeoutError, OutcomeUnknown, StoreUnavailable):
        return False
    return True


@pytest.mark.parametrize(
    "round_trips", [1.8, 3.0], ids=["not for connecting", "for connecting, but not for asking too"]
)
async def test_calls_without_the_time_to_connect_are_answered_in_the_end(lost, way, round_trips):
    """Or a keeper on a slow network would never renew again once it lost its connection."""
    deadline = round_trips * ROUND_TRIP
    way.reset()
    way.slow(ROUND_TRIP / 2)

    answered: list[bool] = []
    while not any(answered) and len(answered) < 8:
        answered.append(await in_time(lost.active(()), deadline))
        await CLOCK.sleep(deadline / 3)
    way.heal()

    assert answered[-1], "never"
    assert not answered[0], "the deadline was no obstacle"


async def test_calls_given_up_one_after_the_other_wait_for_one_attempt(lost, way, connects):
    for _ in range(5):
        assert not await in_time(lost.active(()), 0.05)

    way.heal()

    assert (await lost.active(())).answers == ()
    assert connects == []


@pytest.fixture
def connects(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """Who made a connection since."""
    made: list[Settings] = []
    new = Settings.new_connection

    def noted(settings: Settings, address: Address | None = None) -> AbstractConnection:
        made.append(settings)
        return new(settings, address)

    monkeypatch.setattr(Settings, "new_connection", noted)
    return made


async def test_an_attempt_without_an_end_is_given_up_for_another(lost, way, monkeypatch):
    """Behind the same name may be another server by then."""
    monkeypatch.setattr(connection, "_ATTEMPT", 0.1)
    # the one under way still has its time
    await lost.close()
    with pytest.raises(StoreUnavailable, match="no answer within"):
        await lost.active(())

    way.heal()

    monkeypatch.setattr(connection, "_ATTEMPT", 5.0)
    assert (await lost.active(())).answers == ()


async def test_a_failed_attempt_is_told_and_made_again_by_the_next_call(lost, way, connects):
    await lost.close()
    way.cut()
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await lost.active(())
    assert len(connects) == 2

    way.heal()

    assert (await lost.active(())).answers == ()
    assert len(connects) == 3


async def test_an_attempt_that_fails_when_nobody_waits_is_forgotten(lost, way):
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, told: complaints.append(told))

    way.cut()
    await asyncio.wait(attempts())
    way.heal()
    await lost.active(())
    gc.collect()
    await CLOCK.sleep(0)

    assert complaints == []


async def test_closing_during_an_attempt_leaves_nothing(lost, way):
    assert len(attempts()) == 1

    await lost.close()

    assert attempts() == []
    way.heal()
