"""How often an instance asks the store: in a burst, and to keep what it holds."""

from __future__ import annotations

import asyncio
import math
import statistics
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.child import Child, children
from benchmarks.stores import Store, Stores
from benchmarks.table import Peer, Row, skipped
from benchmarks.units import in_seconds

_STORES = ("sqlite", "redis-8.0")
_JOBS, _INSTANCES = 10_000, 3
_HELD, _HEARTBEATS = (1, 10, 1000), 5
#: Trips for a hundred due slots, an instance, and which kinds are meant.
_GOAL = 1.0
_COUNTED = ("claim", "look", "finish")
#: From here on the jobs are declared and registered before they are due.
_LEAD, _TRIES = 12.0, 3


def measure(stores: Stores) -> Iterator[Row]:
    for name in _STORES:
        store = stores.get(name)
        if store is None:
            yield skipped(f"trips: {name}", stores.why(name))
            continue
        yield from _burst_rows(store.name, asyncio.run(_burst(store)))
        yield from _renewal_rows(store.name, asyncio.run(_hold(store)))


async def _burst(store: Store) -> list[dict[str, Any]]:
    lead = _LEAD
    for attempt in range(_TRIES):
        fleet = f"burst-{attempt}"
        spec: dict[str, object] = {"url": store.url(fleet), "namespace": fleet, "jobs": _JOBS}
        async with children("burst", [spec] * _INSTANCES) as instances:
            await _set_moment(instances, lead)
            early = [(await child.told("ready"))["early"] for child in instances]
            if min(early) > 0:
                return [await child.told("settled") for child in instances]
        lead *= 2
    raise RuntimeError(f"{_INSTANCES} instances needed more than {lead / 2:.0f} s to start")


async def _hold(store: Store) -> list[float]:
    specs: list[dict[str, object]] = [
        {
            "url": store.url(f"held-{held}"),
            "namespace": f"held-{held}",
            "held": held,
            "heartbeats": _HEARTBEATS,
        }
        for held in _HELD
    ]
    async with children("holding", specs) as instances:
        await _set_moment(instances, 3.0)
        return [(await child.told("held"))["renewals"] for child in instances]


async def _set_moment(instances: list[Child], lead: float) -> None:
    for child in instances:
        await child.told("up")
    moment = math.ceil(time.time() + lead)
    for child in instances:
        child.say(moment=moment)


def _burst_rows(store: str, instances: list[dict[str, Any]]) -> Iterator[Row]:
    figure = f"trips: {_JOBS:,} due at once, {_INSTANCES} instances, {store}"
    for number, fact in enumerate(instances, 1):
        trips = fact["trips"]
        each = sum(trips.get(verb, 0) for verb in _COUNTED) / _JOBS * 100
        yield Row(
            f"{figure}: instance {number}, of 100 slots",
            f"{each:.2f}",
            [Peer("all", ", ".join(f"{count} {verb}" for verb, count in sorted(trips.items())))],
            f"≤ {_GOAL:.0f}",
            each <= _GOAL,
        )
    published = sum(fact["published"] for fact in instances)
    shares = ", ".join(str(fact["published"]) for fact in instances)
    yield Row(
        f"{figure}: published",
        f"{published:,}",
        [Peer("shared", shares)],
        f"{_JOBS:,}",
        published == _JOBS,
    )
    lags = sorted(lag for fact in instances for lag in fact["lags"])
    yield Row(
        f"{figure}: last published after",
        in_seconds(lags[-1]),
        [Peer("median", in_seconds(statistics.median(lags)))],
    )
    cpu = [fact["cpu"] for fact in instances]
    yield Row(f"{figure}: CPU, an instance", in_seconds(statistics.median(cpu)))


def _renewal_rows(store: str, renewals: list[float]) -> Iterator[Row]:
    for held, each in zip(_HELD, renewals, strict=True):
        yield Row(
            f"trips: renewals a heartbeat, {held:,} held, {store} (2,000 a call)",
            f"{each:.1f}",
            goal="≤ 1",
            met=each <= 1,
        )
