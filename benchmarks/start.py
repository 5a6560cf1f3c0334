"""How long importing and starting take."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

from benchmarks.child import children
from benchmarks.effort import Effort
from benchmarks.stores import Store, Stores
from benchmarks.table import Peer, Row, skipped
from benchmarks.units import in_seconds, megabytes, millis

_ROUNDS = 15
#: Jobs, and how often they are started; the goals are for the most.
_SIZES, _QUICK_SIZES = ((10_000, 3), (100_000, 1)), ((20, 1),)
_READY, _MEMORY = 10.0, 400e6
_PATIENCE = 300.0


def measure(stores: Stores, effort: Effort) -> Iterator[Row]:
    rounds = effort.pick(_ROUNDS, 1)
    bare, ours = _imports(rounds, "pass", "import anarchon")
    peer = Peer("python -c pass", millis(bare), ours / bare)
    yield Row("start: python -c 'import anarchon'", millis(ours), [peer])
    for name in effort.pick(stores.names, stores.names[:1]):
        store = stores.get(name)
        if store is None:
            yield skipped(f"start: {name}", stores.why(name))
            continue
        for jobs, times in effort.pick(_SIZES, _QUICK_SIZES):
            yield from asyncio.run(_starts(store, jobs, times))


def _imports(rounds: int, *programs: str) -> list[float]:
    times: list[list[float]] = [[] for _ in programs]
    for _ in range(rounds):
        for program, taken in zip(programs, times, strict=True):
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", program], check=True)
            taken.append(time.perf_counter() - began)
    return [statistics.median(taken) for taken in times]


async def _starts(store: Store, jobs: int, times: int) -> list[Row]:
    declaring: list[float] = []
    first: list[float] = []
    again: list[float] = []
    memory: list[float] = []
    for number in range(times):
        fleet = f"start-{jobs}-{number}"
        for starting in (first, again):
            spec: dict[str, object] = {"url": store.url(fleet), "namespace": fleet, "jobs": jobs}
            async with children("loaded", [spec]) as [child]:
                fact = await child.told("started", _PATIENCE)
                declaring.append(fact["declaring"])
                starting.append(fact["starting"])
                memory.append(fact["memory"])
                bare = fact["bare"]
    declared = statistics.median(declaring)
    figure = f"start: {jobs:,} crons, {store.name}"
    peer = Peer("declaring them", in_seconds(declared))
    whole = statistics.median(memory)
    is_goal = jobs == _SIZES[-1][0]
    return [
        _row(f"{figure}: start(), jobs new to it", statistics.median(first), peer, is_goal),
        _row(f"{figure}: start(), jobs known to it", statistics.median(again), peer, is_goal),
        Row(
            f"{figure}: memory",
            megabytes(whole),
            [Peer("a job", f"{(whole - bare) / jobs:,.0f} bytes")],
            f"< {megabytes(_MEMORY)}" if is_goal else "",
            whole < _MEMORY if is_goal else None,
        ),
    ]


def _row(figure: str, seconds: float, peer: Peer, is_goal: bool) -> Row:
    goal = f"< {in_seconds(_READY)}" if is_goal else ""
    return Row(figure, in_seconds(seconds), [peer], goal, seconds < _READY if is_goal else None)
