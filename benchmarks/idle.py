"""What an instance costs that has many jobs and nothing to do."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from benchmarks.child import children
from benchmarks.effort import Effort
from benchmarks.stores import Store, Stores
from benchmarks.table import Peer, Row, skipped
from benchmarks.units import megabytes

_SIZES, _QUICK_SIZES = (10_000, 100_000), (20,)
_SECONDS, _QUICK_SECONDS = 15, 1
_GOAL = 0.01
#: Calls a minute: one in ten seconds.
_CALLS = 6
_PATIENCE = 300.0


def measure(stores: Stores, effort: Effort) -> Iterator[Row]:
    there = []
    for name in effort.pick(stores.names, stores.names[:1]):
        if (store := stores.get(name)) is None:
            yield skipped(f"idle: {name}", stores.why(name))
        else:
            there.append(store)
    for jobs in effort.sizes_or(_SIZES, _QUICK_SIZES):
        yield from _rows(there, jobs, effort)


def _rows(there: list[Store], jobs: int, effort: Effort) -> Iterator[Row]:
    seconds = effort.pick(_SECONDS, _QUICK_SECONDS)
    idled = asyncio.run(_idle(there, jobs, seconds))
    for store, (started, fact) in zip(there, idled, strict=True):
        figure = f"idle: {jobs:,} jobs none due, {store.name}"
        share, calls = fact["share"], fact["calls"]
        yield Row(
            f"{figure}: CPU over {seconds} s, no upkeep in them",
            f"{share:.3%}",
            goal=f"< {_GOAL:.0%} of a core",
            met=share < _GOAL,
        )
        yield Row(f"{figure}: calls", f"{calls:.0f} /min", goal=f"≤ {_CALLS}", met=calls <= _CALLS)
        bare = Peer("without jobs", megabytes(started["bare"]), fact["memory"] / started["bare"])
        yield Row(f"{figure}: memory", megabytes(fact["memory"]), [bare])


async def _idle(
    stores: list[Store], jobs: int, seconds: int
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    specs: list[dict[str, object]] = [
        {"url": store.url(f"idle-{jobs}"), "namespace": f"idle-{jobs}", "jobs": jobs}
        for store in stores
    ]
    async with children("loaded", specs) as instances:
        started = [await child.told("started", _PATIENCE) for child in instances]
        await asyncio.sleep(2)  # what start left for later
        # idle as they are, they do not disturb one another
        for child in instances:
            child.say(idle=seconds)
        return [
            (was, await child.told("idled")) for was, child in zip(started, instances, strict=True)
        ]
