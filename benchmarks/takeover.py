"""How long after `kill -9` of its runner a run is taken over."""

from __future__ import annotations

import asyncio
import math
import random
import statistics
import time
from collections.abc import Iterator

from benchmarks.child import Child, children
from benchmarks.stores import Store, Stores
from benchmarks.table import Peer, Row, skipped
from benchmarks.units import in_seconds

_LEASE, _GOAL = 3.0, 5.0
#: A kill needs a fleet of its own: two instances, one of which survives. Ten fleets at once.
_WAVES, _FLEETS = 2, 10


def measure(stores: Stores) -> Iterator[Row]:
    kills = _WAVES * _FLEETS
    for name in stores.names:
        store = stores.get(name)
        figure = f"takeover: kill -9, {_LEASE:.0f} s lease, one survivor, {name}"
        if store is None:
            yield skipped(figure, stores.why(name))
            continue
        taken = [seconds for wave in range(_WAVES) for seconds in asyncio.run(_wave(store, wave))]
        late = sum(seconds >= _GOAL for seconds in taken)
        yield Row(
            figure,
            f"max {in_seconds(max(taken))}",
            [
                Peer("min", in_seconds(min(taken))),
                Peer("median", in_seconds(statistics.median(taken))),
                Peer("not in time", f"{late} of {kills}"),
            ],
            f"< {_GOAL:.0f} s, {kills} of {kills}",
            late == 0,
        )


async def _wave(store: Store, wave: int) -> list[float]:
    fleets = [f"kill-{wave}-{number}" for number in range(_FLEETS)]
    specs: list[dict[str, object]] = [
        {"url": store.url(fleet), "namespace": fleet, "lease": _LEASE}
        for fleet in fleets
        for _ in range(2)
    ]
    async with children("mortal", specs) as instances:
        for child in instances:
            await child.told("up")
        moment = math.ceil(time.time() + 3)
        for child in instances:
            child.say(moment=moment)
        for child in instances:
            await child.told("ready")
        pairs = zip(instances[::2], instances[1::2], strict=True)
        return await asyncio.gather(*(_kill_the_runner(*pair) for pair in pairs))


async def _kill_the_runner(one: Child, other: Child) -> float:
    """Kill whichever of two runs, at a random moment of its heartbeat; return what it cost."""
    attempts = {asyncio.create_task(child.told("attempt")): child for child in (one, other)}
    [first], [second] = await asyncio.wait(attempts, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.sleep(_LEASE / 3 * random.uniform(1, 2))
    began = time.monotonic()
    attempts[first].kill()
    taken = await second
    assert (first.result()["number"], taken["number"]) == (1, 2), "it is a takeover"
    return float(taken["at"] - began)
