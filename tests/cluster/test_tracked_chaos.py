"""Chaos among tracked runs: workers, schedulers, stores, brokers and ways fail as a seed says.

`ANARCHON_CHAOS_SEED`, `ANARCHON_SOAK_MINUTES` and `ANARCHON_FIGURES` as in `test_chaos`.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cluster import tracked_chaos
from tests.cluster.chaos import Plan
from tests.cluster.test_chaos import SOAK_MINUTES

Chaos = Callable[[Plan], None]


@pytest.fixture
def chaos(servers, tmp_path, record_property) -> Chaos:
    """Everything that can fail, and proxies of ours on each way to the store and the broker."""

    def bring(plan: Plan) -> None:
        with tracked_chaos.stage(servers, tmp_path, plan) as (cluster, broker):
            ways = tracked_chaos.settle(cluster, broker)
            draws = tracked_chaos.all_draws(cluster, broker, ways)
            tracked_chaos.run(cluster, plan, draws, record_property)

    return bring


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "store", ["redis-8.0", pytest.param("postgres-18", marks=pytest.mark.soak)]
)
def test_no_tracked_run_is_lost_or_doubled_whatever_fails(chaos, store):
    """G3, G4, G5, G6, G12."""
    chaos(Plan(store, seconds=20, every=1.5))


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("store", ["redis-8.0", "postgres-18"])
def test_no_tracked_run_is_lost_or_doubled_however_long_things_fail(chaos, store):
    """G3, G4, G5, G6, G12."""
    chaos(Plan(store, seconds=60 * SOAK_MINUTES, every=5.0))
