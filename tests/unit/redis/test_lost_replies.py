"""Connections cut in the middle of a claim, or silent, behind sentinels and in a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta

import pytest
from redis import Redis

from anarchon.backends.redis import RedisBackend, RedisStore
from anarchon.backends.redis.keys import Keys
from anarchon.clock import SystemClock
from anarchon.errors import OutcomeUnknown, StoreUnavailable
from anarchon.run import Overlap, RunState
from anarchon.store import Claim, Mode, Outcome, Registration, Reply, Terms
from tests.cluster.network import Proxy
from tests.servers import ServersForTests
from tests.servers.cluster import PRIMARIES, ClusterSet
from tests.servers.process import HOST
from tests.servers.sentinel import SentinelSet

NAMESPACE = "lost"
JOB = "the job"
KEYS = Keys(NAMESPACE)
TERMS = Terms(timedelta(hours=1), Overlap.SKIP, 3, RunState.RUNNING)


class Reached:
    """A set whose servers are reached by proxies; ``way`` is the one to the server of ``JOB``."""

    def __init__(self, url: str, way: Proxy, admin: Redis) -> None:
        self.url = url
        self.way = way
        self.admin = admin


def behind_sentinels(servers: ServersForTests, stack: ExitStack) -> Reached:
    ways: list[Proxy] = []

    def way_to(port: int) -> int:
        ways.append(stack.enter_context(Proxy((HOST, port))))
        return ways[0].port

    made = SentinelSet(servers, "redis-8.0", way_to=way_to)
    stack.callback(made.close)
    stack.callback(ways[0].cut)
    return Reached(made.url(), ways[0], made.admin(made.servers[0]))


def in_a_cluster(servers: ServersForTests, stack: ExitStack) -> Reached:
    ways = [stack.enter_context(Proxy((HOST, 1))) for _ in range(PRIMARIES)]
    made = ClusterSet(servers, "valkey-9", ways=[way.port for way in ways])
    stack.callback(made.close)
    for way, node in zip(ways, made.nodes, strict=True):
        way.switch((HOST, node.port))
        stack.callback(way.cut)
    node = made.primary_of(KEYS.of_job(JOB)[0])
    return Reached(made.url(), ways[made.nodes.index(node)], made.admin(node))


SHAPES = {"sentinels": behind_sentinels, "cluster": in_a_cluster}


@pytest.fixture(
    scope="module",
    params=[pytest.param(n, marks=pytest.mark.xdist_group(f"lost in {n}")) for n in SHAPES],
)
def reached(request: pytest.FixtureRequest, servers: ServersForTests) -> Iterator[Reached]:
    with ExitStack() as stack:
        yield SHAPES[request.param](servers, stack)


@pytest.fixture
async def store(reached: Reached) -> AsyncIterator[RedisStore]:
    reached.way.heal()
    reached.admin.flushall()
    store = RedisBackend(reached.url).connect(NAMESPACE)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def due(store: RedisStore, reached: Reached) -> datetime:
    now = (await store.active([Registration(JOB, "v1")])).time
    reached.admin.hset(KEYS.of_job(JOB)[0], "floor", 0)
    return now.replace(microsecond=0) - timedelta(minutes=1)


def claim_of(slot: datetime, token: str = "t") -> Claim:
    return Claim(JOB, slot, token, Mode.SCHEDULED, "web-1", TERMS, timedelta(hours=1))


async def claimed(store: RedisStore, slot: datetime, token: str = "t") -> tuple[Outcome, int]:
    """Ask until there is an answer, as the engine does."""
    for _ in range(600):
        try:
            (answer,) = (await store.claim([claim_of(slot, token)])).answers
            return answer.outcome, answer.attempt
        except (StoreUnavailable, OutcomeUnknown):
            await SystemClock().sleep(0.05)
    raise AssertionError("not answered in time")


async def test_a_claim_whose_answer_was_lost_is_won_once(reached, store, due):
    """G1: it has happened, and whoever asks again under its token hears so."""
    reached.way.slow(0.5)
    asked = asyncio.create_task(store.claim([claim_of(due)]))
    runs = KEYS.of_job(JOB)[1]
    while not reached.admin.hlen(runs):
        await SystemClock().sleep(0.01)
    reached.way.reset()

    with pytest.raises(OutcomeUnknown):
        await asked
    reached.way.heal()

    assert await claimed(store, due, "another") == (Outcome.RUNNING, 1)
    assert await claimed(store, due) == (Outcome.WON, 1)


async def test_a_claim_that_never_got_there_is_won_by_whoever_asks_first(reached, store, due):
    reached.way.black_hole()
    asked = asyncio.create_task(store.claim([claim_of(due)]))
    await SystemClock().sleep(0.05)
    reached.way.cut()

    with pytest.raises(OutcomeUnknown):
        await asked
    reached.way.heal()

    assert await claimed(store, due, "another") == (Outcome.WON, 1)
    assert await claimed(store, due) == (Outcome.RUNNING, 1)


async def test_a_silent_connection_is_given_up_at_the_deadline_and_the_job_goes_on(
    reached, store, due
):
    reached.way.black_hole()
    for _ in range(3):
        with pytest.raises((TimeoutError, StoreUnavailable, OutcomeUnknown)):
            await _within(0.3, store, due)
    reached.way.heal()

    assert await claimed(store, due) == (Outcome.WON, 1)


async def _within(seconds: float, store: RedisStore, due: datetime) -> Reply[object]:
    async with SystemClock().timeout(seconds):
        return await store.claim([claim_of(due)])


async def test_a_connection_that_was_reset_is_made_anew(reached, store, due):
    assert await claimed(store, due) == (Outcome.WON, 1)

    reached.way.reset()

    assert await claimed(store, due, "another") == (Outcome.RUNNING, 1)
    assert await claimed(store, due) == (Outcome.WON, 1)
