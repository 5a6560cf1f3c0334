"""Eight processes claim 2,000 slots at the same instants, behind sentinels and in a cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from anarchon.backends.redis import RedisBackend
from anarchon.store import Registration
from tests.cluster.rival import NAMESPACE, compete
from tests.servers import ServersForTests
from tests.servers.cluster import ClusterSet
from tests.servers.sentinel import SentinelSet

pytestmark = pytest.mark.cluster
SHAPES = {"sentinels": SentinelSet, "cluster": ClusterSet}
JOBS = [f"job-{n}" for n in range(40)]


@pytest.fixture(
    params=[pytest.param(n, marks=pytest.mark.xdist_group(f"races in {n}")) for n in SHAPES]
)
def made(
    request: pytest.FixtureRequest, servers: ServersForTests
) -> Iterator[SentinelSet | ClusterSet]:
    # "everysec" may put off a write, and a kill then loses what was acknowledged
    made = SHAPES[request.param](servers, "redis-8.0", options=["--appendfsync", "always"])
    yield made
    made.close()


async def register(url: str) -> None:
    store = RedisBackend(url).connect(NAMESPACE)
    await store.active([Registration(job, "v1") for job in JOBS])
    await store.close()


@pytest.mark.soak
@pytest.mark.timeout(180)
async def test_of_8_processes_one_wins_each_of_2000_slots(made):
    """G1"""
    await register(made.url())

    wins = await compete(made.url(), JOBS, instants=50, gap=60, meanwhile=lambda: None)

    assert len(wins) == 2000
    assert set(wins.values()) == {1}


@pytest.mark.timeout(180)
async def test_of_8_processes_one_wins_each_slot_while_servers_are_killed_and_restarted(made):
    """G1"""
    await register(made.url())
    killed = made.nodes[:1] if isinstance(made, ClusterSet) else [made.servers[0]]

    def kill_and_restart() -> None:
        for server in [*killed, *killed]:
            time.sleep(0.7)
            server.kill()
            time.sleep(0.3)
            server.start()

    wins = await compete(made.url(), JOBS, instants=50, gap=60, meanwhile=kill_and_restart)

    # where the answer to a claim was lost, it is asked for again under its token
    assert len(wins) == 2000
    assert set(wins.values()) == {1}
