"""A primary of a Sentinel set, or of a cluster, dies: claims go on, and what is lost meanwhile."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest

from tests.cluster.failover import Loss, Script, fail_over
from tests.cluster.redis_sets import SETS
from tests.servers import ServersForTests

pytestmark = pytest.mark.cluster
SHAPES = [pytest.param(n, marks=pytest.mark.xdist_group(f"failover of {n}")) for n in SETS]
#: Nothing is cut before the primary is killed.
KILLED = Script(cut=0.0)
#: As where the machine of the primary, or the way to it, goes and not just a process.
LOST = Script(cut=1.1)


async def losses_of(
    servers: ServersForTests, shape: str, name: str, script: Script
) -> tuple[Loss, Loss]:
    """Let the same happen without and with ``wait_replicas=1``, side by side."""
    with ExitStack() as stack:
        made = [stack.enter_context(SETS[shape](servers, name)) for _ in range(2)]
        unsafe, safe = await asyncio.gather(
            *(fail_over(one, wait, script) for wait, one in enumerate(made))
        )
    for wait_replicas, loss in enumerate((unsafe, safe)):
        print(f"{shape} {name} {script} wait_replicas={wait_replicas}: {loss}")  # noqa: T201
        assert loss.never_won == 0
        assert loss.most_wins_of_a_slot <= 2
        assert (loss.fences_twice, loss.fences_back) == (0, 0)
    return unsafe, safe


@pytest.mark.timeout(180)
@pytest.mark.parametrize("shape", SHAPES)
async def test_claims_go_on_after_a_failover(servers, shape):
    """G1, G2, G4, G5"""
    with SETS[shape](servers, "redis-8.0") as made:
        loss = await fail_over(made, 1, KILLED)

    print(f"{shape} {KILLED} wait_replicas=1: {loss}")  # noqa: T201
    assert loss.never_won == 0
    assert (loss.doubled, loss.wins_lost, loss.ends_lost, loss.overlaps) == (0, 0, 0, 0)
    assert (loss.fences_twice, loss.fences_back) == (0, 0)


@pytest.mark.soak
@pytest.mark.timeout(180)
@pytest.mark.parametrize("shape", SHAPES)
async def test_claims_go_on_beside_a_primary_that_stands_still(servers, shape):
    """Its connections stay open, and nothing answers there; then it comes back as it was."""
    with SETS[shape](servers, "valkey-9", freezes=True) as made:
        loss = await fail_over(made, 0, KILLED)

    print(f"{shape} stands still, wait_replicas=0: {loss}")  # noqa: T201
    assert loss.never_won == 0
    assert loss.most_wins_of_a_slot <= 2


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["redis-8.0", "valkey-9"])
@pytest.mark.parametrize("script", [KILLED, LOST], ids=["killed", "lost"])
async def test_five_failovers(servers, shape, name, script):
    """G1, G2, G4, G5"""
    failovers = [await losses_of(servers, shape, name, script) for _ in range(5)]
    unsafe, safe = zip(*failovers, strict=True)

    for wait_replicas, losses in enumerate((unsafe, safe)):
        sums = {
            what: sum(getattr(loss, what) for loss in losses)
            for what in ("slots", "won", "doubled", "wins_lost", "ends", "ends_lost", "overlaps")
        }
        print(f"in all: {shape} {name} {script} wait_replicas={wait_replicas}: {sums}")  # noqa: T201
    for loss in safe:
        assert (loss.doubled, loss.wins_lost, loss.ends_lost, loss.overlaps) == (0, 0, 0, 0)
    if script.cut:
        assert all(loss.doubled > 0 for loss in unsafe)
