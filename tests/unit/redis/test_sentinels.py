"""Sentinels that disagree, are away, or say nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest

from anarchon.backends.redis import RedisBackend, RedisStore, connection, sentinels
from anarchon.backends.redis.addresses import read_store_url
from anarchon.backends.redis.sentinels import Sentinels
from anarchon.clock import SystemClock
from anarchon.errors import OutcomeUnknown, StoreRefused, StoreUnavailable
from tests.unit.redis.scripted_server import HEALTHY, OK, Say, scripted_server

NOBODY = b"*-1\r\n"
NOW = b"*2\r\n$1\r\n1\r\n$1\r\n0\r\n"


def named(port: int) -> bytes:
    text = str(port).encode()
    return b"*2\r\n$9\r\n127.0.0.1\r\n$%d\r\n%b\r\n" % (len(text), text)


def sentinel_saying(answer: bytes | None) -> Say:
    return lambda command: {"CLIENT": OK, "SENTINEL": answer}[command[0]]


@pytest.fixture
async def primary_of() -> AsyncIterator[Callable[..., object]]:
    """What sentinels with these answers are taken to say."""
    async with AsyncExitStack() as stack:

        async def found(*answers: bytes | None) -> tuple[str, int]:
            ports = [
                await stack.enter_async_context(scripted_server(sentinel_saying(answer)))
                for answer in answers
            ]
            hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
            return await Sentinels(read_store_url(f"redis+sentinel://{hosts}/main")).primary()

        yield found


async def test_most_of_them_are_believed(primary_of):
    """One that was cut off still names the old primary."""
    for answers in ((1, 2, 2), (2, 1, 2), (2, 2, 1)):
        assert await primary_of(*map(named, answers)) == ("127.0.0.1", 2)


async def test_one_that_answers_is_enough(primary_of):
    assert await primary_of(NOBODY, named(7), None) == ("127.0.0.1", 7)


async def test_one_that_is_silent_does_not_hold_up_the_others(primary_of, monkeypatch):
    # not waited for at all: the test would take as long
    monkeypatch.setattr(sentinels, "_PATIENCE", 50)

    assert await primary_of(b"", named(7), named(7)) == ("127.0.0.1", 7)


async def test_silence_of_all_is_a_store_that_is_away(primary_of, monkeypatch):
    monkeypatch.setattr(sentinels, "_PATIENCE", 0.05)

    with pytest.raises(StoreUnavailable, match="no answer within") as raised:
        await primary_of(b"", b"")

    assert type(raised.value) is StoreUnavailable


async def test_a_service_that_none_of_them_knows_is_refused(primary_of):
    with pytest.raises(StoreRefused, match="watches no service called 'main'"):
        await primary_of(NOBODY, NOBODY)


async def test_an_unknown_service_of_one_while_others_are_away_may_pass(primary_of):
    with pytest.raises(StoreUnavailable) as raised:
        await primary_of(NOBODY, None)

    assert type(raised.value) is StoreUnavailable


class Led:
    """A store behind a sentinel that names ``primary``; the two servers note who was asked."""

    def __init__(self) -> None:
        self.primary = "old"
        self.heard: list[str] = []
        self.is_away = False
        self.frozen = ""
        self.ports: dict[str, int] = {}
        self.says: dict[str, Callable[[], bytes | None]] = dict.fromkeys(
            ("old", "new"), lambda: NOW
        )

    def server(self, name: str) -> Say:
        def say(command: list[str]) -> bytes | None:
            if name == self.frozen:
                return b""
            if command[0] != "TIME":
                return HEALTHY[command[0]]
            self.heard.append(name)
            return self.says[name]()

        return say

    def sentinel(self, command: list[str]) -> bytes | None:
        if command[0] == "SENTINEL":
            return None if self.is_away else named(self.ports[self.primary])
        return HEALTHY[command[0]]


@pytest.fixture
async def led() -> AsyncIterator[tuple[Led, RedisStore]]:
    led = Led()
    async with AsyncExitStack() as stack:
        for name in ("old", "new"):
            led.ports[name] = await stack.enter_async_context(scripted_server(led.server(name)))
        port = await stack.enter_async_context(scripted_server(led.sentinel))
        led.ports["sentinel"] = port
        store = RedisBackend(f"redis+sentinel://127.0.0.1:{port}/main").connect("n")
        stack.push_async_callback(store.close)
        yield led, store


async def test_the_primary_is_looked_for_anew_by_each_connection(led):
    """After a failover the next call finds the new one."""
    led, store = led
    led.says["old"] = lambda: None
    with pytest.raises(OutcomeUnknown):
        await store.active(())
    led.primary = "new"

    await store.active(())

    assert led.heard == ["old", "new"]


async def test_a_primary_that_was_replaced_during_a_silence_is_left(led, monkeypatch):
    led, store = led
    await store.active(())
    led.primary = "new"

    await store.active(())
    assert led.heard == ["old", "old"], "nobody was silent"
    monkeypatch.setattr(connection, "_SILENCE", 0)
    await store.active(())

    assert led.heard == ["old", "old", "new"]


async def test_a_primary_that_was_replaced_while_it_let_nobody_connect_is_left(led, monkeypatch):
    """The attempt has longer than a call; nobody waits for it once it leads nowhere."""
    led, store = led
    led.frozen = "old"
    with pytest.raises(TimeoutError):
        async with SystemClock().timeout(0.2):
            await store.active(())
    led.primary = "new"
    monkeypatch.setattr(connection, "_SILENCE", 0)

    async with SystemClock().timeout(2):
        await store.active(())

    assert led.heard == ["new"]


async def test_the_answer_of_one_that_was_replaced_during_the_call_is_not_believed(
    led, monkeypatch
):
    led, store = led
    monkeypatch.setattr(connection, "_SILENCE", 0)

    def answer_late() -> bytes:
        led.primary = "new"
        return NOW

    led.says["old"] = answer_late
    with pytest.raises(OutcomeUnknown, match="another was made the primary"):
        await store.active(())
    await store.active(())

    assert led.heard == ["old", "new"]


async def test_a_primary_whose_sentinels_are_away_is_asked_on(led, monkeypatch):
    led, store = led
    await store.active(())
    led.is_away = True
    monkeypatch.setattr(connection, "_SILENCE", 0)

    await store.active(())

    assert led.heard == ["old", "old"]


async def test_half_of_the_sentinels_that_are_silent_cost_no_call_its_deadline(led, monkeypatch):
    """A call that comes after a silence asks them first."""
    led, _ = led
    async with scripted_server(lambda command: b"") as silent:
        hosts = f"127.0.0.1:{led.ports['sentinel']},127.0.0.1:{silent}"
        store = RedisBackend(f"redis+sentinel://{hosts}/main").connect("n")
        monkeypatch.setattr(sentinels, "_PATIENCE", 0.2)
        await store.active(())
        monkeypatch.setattr(sentinels, "_PATIENCE", 50)
        monkeypatch.setattr(connection, "_SILENCE", 0)

        async with SystemClock().timeout(5):
            await store.active(())
        await store.close()

    assert led.heard == ["old", "old"]
