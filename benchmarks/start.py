"""How long importing and starting take."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

from benchmarks.child import children
from benchmarks.stores import Store, Stores
from benchmarks.table import Peer, Row, skipped
from benchmarks.units import in_seconds, millis

_ROUNDS, _STARTS = 15, 3
JOBS = 10_000


def measure(stores: Stores) -> Iterator[Row]:
    bare, ours = _imports("pass", "import anarchon")
    peer = Peer("python -c pass", millis(bare), ours / bare)
    yield Row("start: python -c 'import anarchon'", millis(ours), [peer])
    for name in stores.names:
        store = stores.get(name)
        figure = f"start: {JOBS:,} crons, {name}"
        if store is None:
            yield skipped(figure, stores.why(name))
        else:
            yield from asyncio.run(_starts(figure, store))


def _imports(*programs: str) -> list[float]:
    times: list[list[float]] = [[] for _ in programs]
    for _ in range(_ROUNDS):
        for program, taken in zip(programs, times, strict=True):
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", program], check=True)
            taken.append(time.perf_counter() - began)
    return [statistics.median(taken) for taken in times]


async def _starts(figure: str, store: Store) -> list[Row]:
    declaring: list[float] = []
    first: list[float] = []
    again: list[float] = []
    for number in range(_STARTS):
        fleet = f"start-{number}"
        for starting in (first, again):
            spec: dict[str, object] = {"url": store.url(fleet), "namespace": fleet, "jobs": JOBS}
            async with children("loaded", [spec]) as [child]:
                fact = await child.told("started")
                declaring.append(fact["declaring"])
                starting.append(fact["starting"])
    declared = statistics.median(declaring)
    peer = Peer("declaring them", in_seconds(declared))
    return [
        Row(f"{figure}: start(), jobs new to it", in_seconds(statistics.median(first)), [peer]),
        Row(f"{figure}: start(), jobs known to it", in_seconds(statistics.median(again)), [peer]),
    ]
