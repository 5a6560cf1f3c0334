"""What an instance costs that has many jobs and nothing to do."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from benchmarks.child import children
from benchmarks.stores import Store, Stores
from benchmarks.table import Peer, Row, skipped
from benchmarks.units import megabytes

_JOBS, _SECONDS = 10_000, 15
_GOAL = 0.01
#: Calls a minute: one in ten seconds.
_CALLS = 6


def measure(stores: Stores) -> Iterator[Row]:
    there = [store for store in map(stores.get, stores.names) if store is not None]
    idled = asyncio.run(_idle(there))
    for name in stores.names:
        if stores.get(name) is None:
            yield skipped(f"idle: {_JOBS:,} jobs, {name}", stores.why(name))
    for store, (started, fact) in zip(there, idled, strict=True):
        figure = f"idle: {_JOBS:,} jobs none due, {store.name}"
        share, calls = fact["share"], fact["calls"]
        yield Row(
            f"{figure}: CPU over {_SECONDS} s, no upkeep in them",
            f"{share:.3%}",
            goal=f"< {_GOAL:.0%} of a core",
            met=share < _GOAL,
        )
        yield Row(f"{figure}: calls", f"{calls:.0f} /min", goal=f"≤ {_CALLS}", met=calls <= _CALLS)
        bare = Peer("without jobs", megabytes(started["bare"]), fact["memory"] / started["bare"])
        yield Row(f"{figure}: memory", megabytes(fact["memory"]), [bare])


async def _idle(stores: list[Store]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    specs: list[dict[str, object]] = [
        {"url": store.url("idle"), "namespace": "idle", "jobs": _JOBS} for store in stores
    ]
    async with children("loaded", specs) as instances:
        started = [await child.told("started") for child in instances]
        await asyncio.sleep(2)  # what start left for later
        # idle as they are, they do not disturb one another
        for child in instances:
            child.say(idle=_SECONDS)
        return [
            (was, await child.told("idled")) for was, child in zip(started, instances, strict=True)
        ]
