"""A connection that is made anew takes longer than a call may; calls come and go meanwhile."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

import pytest

from anarchon.backends.nats import NatsStore, connection
from anarchon.clock import SystemClock
from anarchon.errors import OutcomeUnknown, StoreError, StoreUnavailable
from anarchon_contract.claims.questions import Asker
from tests.cluster.network import Proxy
from tests.unit.nats.admin import Admin

CLOCK = SystemClock()
#: In seconds. Connecting takes four of them here and more; to be told the time takes one.
ROUND_TRIP = 0.1


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The servers that connections were begun to."""
    asked: list[str] = []
    connect = connection.Connection.connect

    async def noted(self: connection.Connection, server: str, *rest: Any) -> None:
        asked.append(server)
        await connect(self, server, *rest)

    monkeypatch.setattr(connection.Connection, "connect", noted)
    return asked


@pytest.fixture
async def lost(cut_off: Asker, way: Proxy, attempts: list[str]) -> Asker:
    """A store whose connection was lost."""
    assert isinstance(cut_off.store, NatsStore)
    opened = await cut_off.store._link.open()
    way.reset()
    while opened.is_alive:
        await CLOCK.sleep(0.005)
    return cut_off


async def in_time(call: Coroutine[Any, Any, object], seconds: float) -> bool:
    """Tell whether a call was answered before a deadline, as the engine gives one to each."""
    try:
        async with CLOCK.timeout(seconds):
            await call
    except (TimeoutError, OutcomeUnknown, StoreUnavailable):
        return False
    return True


async def until_it_is_answered(ask: Asker) -> None:
    """Ask once more if told to come again, as one may be who had to wait for a connection."""
    with suppress(StoreUnavailable):
        await ask.time()
    await ask.time()


@pytest.mark.parametrize(
    "round_trips", [2.5, 4.6], ids=["not for connecting", "for connecting, but not for asking too"]
)
async def test_calls_without_the_time_to_connect_are_answered_in_the_end(lost, way, round_trips):
    """Or on a slow network no slot would ever be won again once the connection was lost."""
    deadline = round_trips * ROUND_TRIP
    way.slow(ROUND_TRIP / 2)

    answered: list[bool] = []
    while not any(answered) and len(answered) < 40:
        answered.append(await in_time(lost.time(), deadline))
        await CLOCK.sleep(deadline / 3)
    way.heal()

    assert answered[-1], "never"
    assert not answered[0], "the deadline was no obstacle"


async def test_a_slow_attempt_costs_nobody_a_call_who_has_the_time(lost, way, attempts):
    way.slow(ROUND_TRIP / 2)

    assert await lost.time()
    assert len(attempts) == 1
    way.heal()


async def test_calls_given_up_one_after_the_other_wait_for_one_attempt(lost, way, attempts):
    way.black_hole()
    for _ in range(5):
        assert not await in_time(lost.time(), 0.05)

    way.heal()

    await until_it_is_answered(lost)
    assert len(attempts) == 1


@pytest.mark.parametrize("turns", range(8))
async def test_closing_during_an_attempt_leaves_nothing(server, lost, way, turns):
    before = asyncio.all_tasks()
    way.slow(0.02)
    assert not await in_time(lost.time(), 0.02 * turns + 0.001)

    await lost.store.close()

    assert asyncio.all_tasks() <= before
    way.heal()
    async with Admin.of(server.url(login="sys:sys")) as system:
        while "anarchon" in await system.connections():
            await CLOCK.sleep(0.005)


async def test_an_attempt_that_fails_when_nobody_waits_is_forgotten(lost, way):
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, told: complaints.append(told))
    way.black_hole()
    assert not await in_time(lost.time(), 0.05)

    way.cut()
    attempt = lost.store._link._connecting._attempt
    await asyncio.wait((attempt,))
    assert isinstance(attempt.exception(), StoreError)
    del attempt
    way.heal()

    await until_it_is_answered(lost)
    gc.collect()
    assert complaints == []
