"""The modes without leases on a server that dies, freezes or forgets, or whose way is cut."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import datetime

import pytest
from redis import Redis

from anarchon.backends.redis import RedisClaimBackend, RedisClaimStore, connection
from anarchon.backends.redis.keys import Keys
from anarchon.clock import SystemClock
from anarchon.errors import OutcomeUnknown, StoreUnavailable
from anarchon.store import Outcome
from anarchon_contract.claims.questions import SECOND, Asker, ended, scheduled
from anarchon_contract.leases.questions import JOB, MINUTE
from tests.claims.harness_redis import server_for
from tests.cluster.network import Proxy
from tests.servers import Server, ServersForTests
from tests.servers.process import HOST

pytestmark = pytest.mark.xdist_group("redis-8.6")

NAMESPACE = "trouble"
CLOCK = SystemClock()
HISTORY = Keys(NAMESPACE).of_claim(JOB, "")[1]


@pytest.fixture(params=["script", "stream-id", "idmp"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(mode: str) -> Server:
    return server_for("redis-8.6", mode)


@pytest.fixture
def admin(server: Server) -> Iterator[Redis]:
    with Redis(port=server.port, decode_responses=True) as admin:
        admin.flushall()
        yield admin
        admin.flushall()


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    proxy = Proxy((HOST, server.port)).start()
    yield proxy
    proxy.stop()


async def opened(url: str) -> AsyncIterator[RedisClaimStore]:
    store = RedisClaimBackend(url).connect(NAMESPACE)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def store(server: Server, admin: Redis, mode: str) -> AsyncIterator[RedisClaimStore]:
    async for store in opened(f"{server.url()}?mode={mode}"):
        yield store


@pytest.fixture
async def ask(store: RedisClaimStore) -> Asker:
    return Asker(store)


@pytest.fixture
async def far(proxy: Proxy, admin: Redis, mode: str) -> AsyncIterator[Asker]:
    """Whose way to the server can be cut."""
    async for store in opened(f"redis://{HOST}:{proxy.port}?mode={mode}"):
        yield Asker(store)


@pytest.fixture
async def due(ask: Asker) -> datetime:
    return (await ask.time()).replace(microsecond=0) - MINUTE


async def test_what_was_claimed_outlives_a_killed_server(ask, server, admin, due):
    admin.config_set("appendfsync", "always")
    won = await ask.claim(due, "a")
    await ask.save(ended(due))

    server.kill()
    server.start()
    # the loop hears of the closed connection
    await CLOCK.sleep(0)

    assert (await ask.claim(due, "b")).outcome is Outcome.DONE
    assert await ask.claim(due, "a") == won
    assert await ask.history() == (ended(due),)


async def test_a_server_is_away_as_long_as_it_is_down(ask, server, due):
    server.kill()
    try:
        for _ in range(2):
            await CLOCK.sleep(0)
            with pytest.raises(StoreUnavailable):
                await ask.claim(due)
    finally:
        server.start()

    assert (await ask.claim(due)).outcome is Outcome.WON


async def test_a_server_that_forgot_its_scripts_is_told_them(ask, store, admin, due):
    admin.script_flush()
    claims = [scheduled(due, "a", job=job) for job in "abc"]
    assert {one.outcome for one in (await store.claim(claims)).answers} == {Outcome.WON}

    admin.script_flush()
    assert await ask.save(ended(due, job="a"))

    admin.script_flush()
    assert len(await ask.history("a", "b", "c")) == 3


async def test_a_claim_given_up_on_a_frozen_server_leaves_no_answer_behind(ask, store, server, due):
    server.pause()
    try:
        with pytest.raises(TimeoutError):
            async with CLOCK.timeout(0.05):
                await store.claim([scheduled(due, "a", job=job) for job in "abc"])
    finally:
        server.resume()

    # what comes for the call that was given up is no answer to this one
    assert await ask.history("nobody's") == ()
    # whether it came there before it was given up or not, one has each slot
    reply = await store.claim([scheduled(due, "a", job=job) for job in "abc"])
    assert {answer.outcome for answer in reply.answers} == {Outcome.WON}
    assert (await ask.claim(due, "b", job="a")).outcome is Outcome.DONE


async def test_a_claim_whose_reply_was_lost_is_won_by_whoever_asked(far, ask, proxy, admin, due):
    """G1: it happened, nobody was told, and the same token hears it when it asks again."""
    # so slow that the reply is still on its way when it is seen that it happened
    proxy.slow(0.4)
    claiming = asyncio.ensure_future(far.claim(due, "a"))
    while not admin.exists(HISTORY):
        await CLOCK.sleep(0.01)
    proxy.cut()
    with pytest.raises(OutcomeUnknown):
        await claiming
    proxy.heal()

    lost = await ask.claim(due, "b")
    again = await far.claim(due, "a")

    assert (lost.outcome, again.outcome) == (Outcome.DONE, Outcome.WON)
    assert len(await ask.history()) == 1


async def test_a_claim_that_never_came_there_is_anybody_s(far, ask, proxy, due):
    """G1, though whoever sent it cannot know."""
    proxy.black_hole()
    claiming = asyncio.ensure_future(far.claim(due, "a"))
    await CLOCK.sleep(0.05)
    proxy.cut()
    with pytest.raises(OutcomeUnknown):
        await claiming
    proxy.heal()

    heard = [(await ask.claim(due, "b")).outcome, (await far.claim(due, "a")).outcome]

    assert heard == [Outcome.WON, Outcome.DONE]


async def test_a_black_hole_ends_a_call_at_its_deadline_and_then_all_goes_on(far, proxy, due):
    await far.claim(due, "a")
    proxy.black_hole()
    for _ in range(2):
        with pytest.raises(TimeoutError):
            async with CLOCK.timeout(0.1):
                await far.claim(due + SECOND, "a")
    proxy.heal()

    assert (await far.claim(due + SECOND, "a")).outcome is Outcome.WON
    assert (await far.claim(due + SECOND, "b")).outcome is Outcome.DONE


@pytest.fixture
def replica(server: Server, servers: ServersForTests) -> Iterator[Server]:
    # of the same version, whichever of the two it is
    replica = servers.start(server.name, "--replicaof", HOST, str(server.port))
    yield replica
    replica.resume()
    replica.kill()


async def test_a_win_that_no_replica_has_is_not_told_however_often_it_is_asked(
    replica, server, admin, mode, ask, due, monkeypatch
):
    """G1. Each failure costs the connection, so that each repeat comes on a new one."""
    monkeypatch.setattr(connection, "_REPLICAS_MILLIS", 300)
    assert any(admin.execute_command("WAIT", 1, 100) for _ in range(200)), "no replica came"
    async for store in opened(f"{server.url()}?mode={mode}&wait_replicas=1"):
        waiting = Asker(store)
        replica.pause()
        for _ in range(2):
            with pytest.raises(OutcomeUnknown, match="only 0 of 1 replicas"):
                await waiting.claim(due, "a")
        assert (await ask.claim(due, "b")).outcome is Outcome.DONE
        replica.resume()

        assert (await waiting.claim(due, "a")).outcome is Outcome.WON


async def test_a_replica_that_takes_over_knows_what_was_claimed(
    replica, server, admin, mode, ask, due
):
    """G1"""
    assert any(admin.execute_command("WAIT", 1, 100) for _ in range(200)), "no replica came"
    async for store in opened(f"{server.url()}?mode={mode}&wait_replicas=1"):
        won = await Asker(store).claim(due, "a")
    with Redis(port=replica.port) as promoted:
        promoted.replicaof("NO", "ONE")

    async for store in opened(f"redis://{HOST}:{replica.port}?mode={mode}"):
        after = Asker(store)
        assert (await after.claim(due, "b")).outcome is Outcome.DONE
        assert await after.claim(due, "a") == won
        assert (await after.claim(due + SECOND, "b")).outcome is Outcome.WON
