"""An instance that starts beside a hash slot whose move was begun and never ended."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator

import pytest
from redis import Redis

from anarchon import RunContext, Scheduler
from anarchon.backends.redis import RedisBackend
from anarchon.backends.redis.keys import Keys
from anarchon.clock import SystemClock
from tests.servers import ServersForTests
from tests.servers.cluster import ClusterServer, ClusterSet
from tests.unit.redis.moves import Move

NAMESPACE = "open"
JOBS = [f"job-{n}" for n in range(10)]


@pytest.fixture
def cluster(servers: ServersForTests) -> Iterator[ClusterSet]:
    made = ClusterSet(servers, "redis-8.0")
    yield made
    made.close()


@pytest.fixture
def admins(cluster: ClusterSet) -> Iterator[dict[ClusterServer, Redis]]:
    admins = {node: cluster.admin(node) for node in cluster.nodes}
    yield admins
    for admin in admins.values():
        admin.close()


class Ran:
    """The jobs that ran, and a wait for each."""

    def __init__(self) -> None:
        self._events: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def work(self, ctx: RunContext) -> None:
        self._events[ctx.job].set()

    async def wait_for(self, *jobs: str) -> None:
        async with SystemClock().timeout(20):
            for job in jobs:
                await self._events[job].wait()

    def has(self, job: str) -> bool:
        return self._events[job].is_set()


async def test_its_jobs_wait_until_it_is_closed_and_the_others_do_not(cluster, admins):
    """A run at start comes from registering, and from nothing else."""
    waiting, *others = JOBS
    move = Move(cluster, admins, Keys(NAMESPACE).of_job(waiting)[0])
    move.begin()
    scheduler, ran = Scheduler(RedisBackend(cluster.url()), namespace=NAMESPACE), Ran()
    for job in JOBS:
        scheduler.every(job, "1d", ran.work, run_at_start=True)

    async with scheduler:
        await ran.wait_for(*others)
        assert not ran.has(waiting)

        move.end()
        await ran.wait_for(waiting)
