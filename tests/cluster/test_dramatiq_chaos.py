"""Chaos among tracked runs of Dramatiq's workers, as among those of Celery's."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cluster import tracked_chaos
from tests.cluster.chaos import Plan
from tests.cluster.kinds import dramatiq_beat, dramatiq_worker
from tests.cluster.test_chaos import SOAK_MINUTES
from tests.cluster.workers import WorkerPlace

Chaos = Callable[[Plan, str], None]
#: A store and a broker.
PLACES = [
    ("redis-8.0", "redis-8.0"),
    ("postgres-18", "redis-8.0"),
    ("redis-8.0", "rabbitmq-3.10"),
    ("postgres-18", "rabbitmq-3.10"),
]


class DramatiqPlace(WorkerPlace):
    """A place of a pod: a master and its processes, which a kill ends all at once."""

    def _more_options(self, name: str) -> Sequence[str | Path]:
        return []

    def kill(self) -> None:
        children = self.children()
        super().kill()
        # one whose master is gone would work on for ever
        for pid in children:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def chaos(servers, tmp_path, record_property) -> Chaos:
    """Everything that can fail, and proxies of ours on each way to the store and the broker."""

    def bring(plan: Plan, broker_name: str) -> None:
        with tracked_chaos.stage(servers, tmp_path, plan, broker_name) as (cluster, broker):
            ways = tracked_chaos.settle(
                cluster,
                broker,
                beats=dramatiq_beat,
                workers=dramatiq_worker,
                makes=DramatiqPlace,
            )
            draws = tracked_chaos.all_draws(cluster, broker, ways)
            # a master that has lost a process ends all of its pod
            draws.pop("pool child killed")
            named = ("--dramatiq", "followed_by_dramatiq")
            tracked_chaos.run(cluster, plan, draws, record_property, named)

    return bring


@pytest.mark.soak
@pytest.mark.timeout(400)
@pytest.mark.parametrize(("store", "broker"), PLACES)
def test_no_tracked_run_of_dramatiq_is_lost_or_doubled_whatever_fails(chaos, store, broker):
    """G3, G4, G5, G6, G12."""
    chaos(Plan(store, seconds=20, every=1.5), broker)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize(("store", "broker"), PLACES)
def test_no_tracked_run_of_dramatiq_is_lost_or_doubled_however_long_things_fail(
    chaos, store, broker
):
    """G3, G4, G5, G6, G12."""
    chaos(Plan(store, seconds=60 * SOAK_MINUTES, every=5.0), broker)
