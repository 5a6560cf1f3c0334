"""Connections that are cut, hang, or end while nobody looks, and servers that do."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Iterator
from datetime import datetime

import pytest

from anarchon.backends.rabbitmq import RabbitMQBackend, RabbitMQStore, line, link
from anarchon.clock import SystemClock
from anarchon.errors import OutcomeUnknown, StoreError, StoreUnavailable
from anarchon.store import ClaimAnswer, Outcome
from anarchon_contract.claims.harness import NAMESPACE
from anarchon_contract.claims.questions import Asker, scheduled
from tests.claims.harness_rabbitmq import add_service, khepri_server, url_of
from tests.cluster.network import Proxy
from tests.servers.rabbitmq import RabbitServer
from tests.unit.rabbitmq_store.one_way import OneWay, one_way

_CLOCK = SystemClock()


@pytest.fixture
async def way(server: RabbitServer) -> AsyncIterator[OneWay]:
    async with one_way(server.port) as way:
        yield way


@pytest.fixture
def proxy(server: RabbitServer) -> Iterator[Proxy]:
    with Proxy(("127.0.0.1", server.port)) as proxy:
        yield proxy


async def _queues(server: RabbitServer) -> int:
    return int(await asyncio.to_thread(server.evaluate, "length(rabbit_amqqueue:list())"))


async def _claims_in_the_end(ask: Asker, *args: object, **options: object) -> ClaimAnswer:
    """Ask as an engine does: with a deadline, and again under the same token."""
    for _ in range(60):
        try:
            async with _CLOCK.timeout(2):
                return await ask.claim(*args, **options)  # type: ignore[arg-type]
        except (StoreUnavailable, OutcomeUnknown, TimeoutError):
            await _CLOCK.sleep(0.1)
    raise AssertionError("it never answered")


async def test_a_claim_whose_reply_was_lost_is_still_won(connect, ask, server, way, due):
    """Cut off once the queue is made: asked again under the same token, by a new connection."""
    cut = Asker(await connect(url_of(server, way.port)))
    way.answers = False
    asked = asyncio.create_task(cut.claim(due, "a", instance="web-7"))
    while await _queues(server) == 0:
        await _CLOCK.sleep(0.01)

    way.reset()
    with pytest.raises(OutcomeUnknown):
        await asked

    way.answers = True
    assert (await ask.claim(due, "b")) == ClaimAnswer(Outcome.DONE, holder="web-7")
    assert (await cut.claim(due, "a", instance="web-7")).outcome is Outcome.WON
    assert (await ask.claim(due, "a", instance="web-7")).outcome is Outcome.WON


async def test_a_call_ends_at_its_deadline_and_the_next_one_is_answered(
    connect, server, proxy, due
):
    """Black-holed: nothing arrives, and nobody hears of an error."""
    ask = Asker(await connect(url_of(server, proxy.port)))
    proxy.black_hole()
    for _ in range(3):
        with pytest.raises(TimeoutError):
            async with _CLOCK.timeout(0.2):
                await ask.claim(due, "a")

    proxy.heal()

    assert (await _claims_in_the_end(ask, due, "a")).outcome is Outcome.WON
    assert (await ask.claim(due, "b")).outcome is Outcome.DONE


async def test_a_cut_connection_is_made_anew(connect, server, proxy, due):
    ask = Asker(await connect(url_of(server, proxy.port)))
    proxy.cut()
    with pytest.raises((StoreUnavailable, OutcomeUnknown)):
        await ask.claim(due, "a")

    proxy.heal()

    assert (await ask.claim(due, "a")).outcome is Outcome.WON


async def test_a_connection_that_the_server_closed_meanwhile_costs_nobody_an_error(
    ask, server, due
):
    server.evaluate('rabbit_networking:close_all_connections("test")')

    assert (await ask.claim(due)).outcome is Outcome.WON


@pytest.mark.parametrize("delay", [0.03, 0.04, 0.05])
async def test_connecting_goes_on_when_the_call_is_given_up(connect, server, proxy, due, delay):
    """It takes more round trips than a short deadline has time for."""
    ask = Asker(await connect(url_of(server, proxy.port)))
    proxy.reset()
    proxy.slow(delay)

    for _ in range(40):
        try:
            async with _CLOCK.timeout(0.25):
                assert (await ask.claim(due, "a")).outcome is Outcome.WON
            break
        except (StoreUnavailable, OutcomeUnknown, TimeoutError):
            continue
    else:
        pytest.fail("it never connected")


async def test_a_batch_that_takes_longer_than_its_deadline_gets_done_in_several_calls(connect, due):
    """What a call has heard before it was given up is not asked for again by the next one."""
    questions = 0

    def now() -> datetime:
        nonlocal questions
        questions += 1
        return _CLOCK.wall()

    store = await connect(now=now)
    claims = [scheduled(due, "a", job=f"job-{count}") for count in range(200)]
    for calls in range(1, 500):
        try:
            async with _CLOCK.timeout(0.02 * calls):
                reply = await store.claim(claims)
            break
        except (StoreUnavailable, OutcomeUnknown, TimeoutError):
            continue
    else:
        pytest.fail("it is never done")

    assert calls > 1
    assert {answer.outcome for answer in reply.answers} == {Outcome.WON}
    # and one reading more for the time of the reply
    assert questions <= len(claims) + calls + 1


async def test_claims_outlive_a_kill_of_the_server(connect, ask, server, due):
    other = Asker(await connect())
    won = await ask.claim(due, "a")
    # it is acknowledged a moment before it is written
    server.evaluate("mnesia:sync_log()")

    server.kill()
    with pytest.raises((StoreUnavailable, OutcomeUnknown)):
        await ask.claim(due, "a")
    await asyncio.to_thread(server.start)

    assert (await _claims_in_the_end(other, due, "b")).outcome is Outcome.DONE
    assert await _claims_in_the_end(ask, due, "a") == won


@pytest.mark.soak
@pytest.mark.timeout(600)
async def test_with_khepri_a_claim_outlives_a_kill_right_after_it(due):
    """With Mnesia it does not always: what is acknowledged is written a moment later."""
    server = khepri_server("rabbitmq-4")
    add_service(server)
    for count in range(10):
        ask = Asker(RabbitMQBackend(url_of(server)).connect(NAMESPACE))
        await ask.claim(due, "a", job=f"job-{count}")
        server.kill()
        await ask.store.close()
        await asyncio.to_thread(server.start)

        heard = await _claims_in_the_end(ask, due, "b", job=f"job-{count}")
        await ask.store.close()

        assert heard.outcome is Outcome.DONE


async def test_a_server_that_stood_still_is_asked_again(ask, server, due):
    server.pause()
    with pytest.raises(TimeoutError):
        async with _CLOCK.timeout(0.2):
            await ask.claim(due, "a")

    server.resume()

    assert (await _claims_in_the_end(ask, due, "a")).outcome is Outcome.WON


async def test_an_idle_connection_is_kept_alive(connect, server, monkeypatch):
    monkeypatch.setattr(link, "HEARTBEAT", 1)
    monkeypatch.setattr(line, "HEARTBEAT", 1)
    # those of tests before this one may be about to end
    others = _connections(server)
    await connect()
    # the server lists one a moment after it has answered it
    while not (ours := _connections(server) - others):
        await _CLOCK.sleep(0.01)

    # a server ends what it did not hear of for two to three heartbeats
    await _CLOCK.sleep(4)

    assert ours <= _connections(server)


def _connections(server: RabbitServer) -> set[str]:
    return set(re.findall(r"<[^>]+>", server.evaluate("rabbit_networking:connections()")))


def test_a_store_that_was_opened_before_a_fork_is_refused_in_the_child(server):
    store = RabbitMQBackend(url_of(server)).connect(NAMESPACE)
    with asyncio.Runner() as runner:
        runner.run(store.open())
        child = os.fork()
        if child == 0:
            try:
                asyncio.run(store.claim(()))
            except StoreError as error:
                os._exit(7 if "before a fork" in error.problem else 1)
            os._exit(2)

        _, status = os.waitpid(child, 0)
        runner.run(store.claim(()))
        runner.run(store.close())

    assert os.waitstatus_to_exitcode(status) == 7


async def test_a_store_is_closed_though_a_call_of_it_hangs(harness, server, proxy, due):
    store: RabbitMQStore = RabbitMQBackend(url_of(server, proxy.port)).connect(NAMESPACE)
    await store.open()
    proxy.black_hole()
    with pytest.raises(TimeoutError):
        async with _CLOCK.timeout(0.1):
            await Asker(store).claim(due)

    async with _CLOCK.timeout(20):
        await store.close()

    proxy.reset()
    assert list(await harness.leftovers()) == []
