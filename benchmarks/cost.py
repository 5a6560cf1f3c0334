"""What a store is asked by a fleet: for a slot, in an idle minute, and to keep leases.

A trip is a call of an instance that waits for an answer; on a file it is a transaction. The
server's own counts are beside it. As these are counts, the stores are measured at once; on a busy
machine more questions gather for one trip.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from benchmarks.child import Child, children
from benchmarks.counters import Counter, counter_of
from benchmarks.effort import Effort
from benchmarks.stores import Store, Stores
from benchmarks.table import Peer, Row, skipped

_INSTANCES, _QUICK_INSTANCES = (1, 3, 10, 30), (1, 2)
_JOBS, _QUICK_JOBS = 10_000, 20
#: So many slots a second, for so many seconds.
_SLOTS, _SECONDS = 100, 10
_QUICK_SLOTS, _QUICK_SECONDS = 5, 2
_LEASES, _QUICK_LEASES = (10, 990), (2, 3)
_WINDOW, _QUICK_WINDOW = 60, 2
#: After slots and after claims the store is left to itself again.
_PAUSE = 5
_TRIES = 3
#: Calls a second of the largest fleet together, with nothing to do.
_GOAL = 10.0
_PRELOADED = ("-c", "shared_preload_libraries=pg_stat_statements")


@dataclass(frozen=True)
class _Plan:
    """When what happens: the marks are where counts are taken."""

    marks: Sequence[float]
    slots: Sequence[float]
    leases: Sequence[tuple[float, int]]


@dataclass(frozen=True)
class _Counts:
    """How often the fleet asked, and what the server counted, between two marks."""

    trips: float
    server: Mapping[str, float]

    def per(self, unit: float) -> _Counts:
        return _Counts(
            self.trips / unit, {name: count / unit for name, count in self.server.items()}
        )


def measure(stores: Stores, effort: Effort) -> Iterator[Row]:
    there: list[Store] = []
    for name in effort.pick(stores.names, ("sqlite", "redis-8.0")):
        options = _PRELOADED if name.startswith("postgres") else ()
        store = stores.private(name, options) if options else stores.get(name)
        if store is None:
            yield skipped(f"cost: {name}", stores.why(name))
        else:
            there.append(store)
    found: dict[tuple[str, int], list[_Counts]] = {}
    for instances in effort.pick(_INSTANCES, _QUICK_INSTANCES):
        for store, counts in zip(there, asyncio.run(_all(there, instances, effort)), strict=True):
            found[store.name, instances] = counts
    for (store_name, instances), counts in found.items():
        yield from _rows(store_name, instances, counts, effort)
    yield from _growth(there, found, effort)


async def _all(stores: list[Store], instances: int, effort: Effort) -> list[list[_Counts]]:
    return await asyncio.gather(*(_fleet(store, instances, effort) for store in stores))


async def _fleet(store: Store, instances: int, effort: Effort) -> list[_Counts]:
    """Return what was counted in each phase: idle, slots, and each number of leases."""
    lead = effort.pick(20.0 + 4.0 * instances, 4.0)
    for attempt in range(_TRIES):
        fleet = f"cost-{instances}-{attempt}"
        spec: dict[str, object] = {
            "url": store.url(fleet),
            "namespace": fleet,
            "jobs": effort.pick(_JOBS, _QUICK_JOBS),
            "slots": effort.pick(_SLOTS, _QUICK_SLOTS),
        }
        async with children("costing", [spec] * instances) as running:
            for child in running:
                await child.told("up", 3 * lead)
            plan = _plan(lead, effort)
            for child in running:
                child.say(marks=plan.marks, slots=plan.slots, leases=plan.leases)
            early = [(await child.told("ready", 3 * lead))["early"] for child in running]
            if min(early) > 0:
                return await _observe(running, counter_of(store), plan)
        lead *= 2
    raise RuntimeError(f"{instances} instances needed more than {lead / 2:.0f} s to start")


def _plan(lead: float, effort: Effort) -> _Plan:
    window = effort.pick(_WINDOW, _QUICK_WINDOW)
    seconds = effort.pick(_SECONDS, _QUICK_SECONDS)
    # idle until it, and a pause after whatever it is that is over
    idle = math.ceil(time.time() + lead)
    first = idle + window
    slots = [float(first + second) for second in range(seconds)]
    moment = first + seconds + _PAUSE
    marks, leases = [float(idle), float(first - 1), float(moment)], []
    for count in effort.pick(_LEASES, _QUICK_LEASES):
        leases.append((float(moment + 1), count))
        marks += [float(moment + _PAUSE), float(moment + _PAUSE + window)]
        moment += _PAUSE + window
    return _Plan(marks, slots, leases)


async def _observe(running: Sequence[Child], counter: Counter, plan: _Plan) -> list[_Counts]:
    server = []
    for mark in plan.marks:
        await asyncio.sleep(max(0.0, mark - time.time()))
        server.append(await counter.read())
    seen = [(await child.told("seen"))["trips"] for child in running]
    trips = [sum(each) for each in zip(*seen, strict=True)]
    between = [
        _Counts(after - before, {name: later[name] - was[name] for name in was})
        for (before, after), (was, later) in zip(pairwise(trips), pairwise(server), strict=True)
    ]
    # idle, slots, and then each second one: between them claims are made
    return [between[0], between[1], *between[3::2]]


def _rows(store: str, instances: int, counts: list[_Counts], effort: Effort) -> Iterator[Row]:
    idle, slots, *leases = _in_units(counts, effort)
    figure = f"cost: {store} × {instances}"
    jobs = effort.pick(_JOBS, _QUICK_JOBS)
    goal, met = "", None
    if instances == _INSTANCES[-1]:
        goal, met = f"< {_GOAL * 60:.0f}", idle.trips < _GOAL * 60
    yield _row(f"{figure}: an idle minute, {jobs:,} jobs", idle, goal, met)
    yield _row(f"{figure}: a slot, {effort.pick(_SLOTS, _QUICK_SLOTS)} at once", slots)
    held = 0
    for more, found in zip(effort.pick(_LEASES, _QUICK_LEASES), leases, strict=True):
        held += more
        yield _row(f"{figure}: a minute with {held:,} leases held", found)


def _in_units(counts: list[_Counts], effort: Effort) -> list[_Counts]:
    idle, slots, *leases = counts
    window = effort.pick(_WINDOW, _QUICK_WINDOW)
    due = effort.pick(_SLOTS * _SECONDS, _QUICK_SLOTS * _QUICK_SECONDS)
    return [
        idle.per((window - 1) / 60),
        slots.per(due),
        *(found.per(window / 60) for found in leases),
    ]


def _row(figure: str, counts: _Counts, goal: str = "", met: bool | None = None) -> Row:
    against = [Peer(name, _shown(count)) for name, count in counts.server.items()]
    return Row(figure, f"{_shown(counts.trips)} trips", against, goal, met)


def _shown(count: float) -> str:
    return f"{count:,.0f}" if count >= 100 else f"{count:.3g}"


def _growth(
    stores: Sequence[Store], found: Mapping[tuple[str, int], list[_Counts]], effort: Effort
) -> Iterator[Row]:
    """Show what the largest fleet costs beside the smallest."""
    fleets = effort.pick(_INSTANCES, _QUICK_INSTANCES)
    small, large = fleets[0], fleets[-1]
    names = ("an idle minute", "a slot")
    for store in stores:
        ones, many = (
            _in_units(found[store.name, instances], effort) for instances in (small, large)
        )
        for name, one, all_of_them in zip(names, ones, many, strict=False):
            yield Row(
                f"cost: growth, {store.name} × {large}: {name}",
                f"{_shown(all_of_them.trips)} trips",
                [
                    Peer(
                        f"× {small}",
                        _shown(one.trips),
                        all_of_them.trips / one.trips if one.trips else None,
                    )
                ],
            )
