"""Every kind of fault that a cluster can have, how often, and how one is drawn by chance.

A further fault joins by a line in `catalogue`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from tests.cluster.cluster import Cluster
from tests.cluster.faults import ClockSet, Fault, Frozen, Killed, Stopped, StoreHarmed, WayLost
from tests.cluster.places import Place, State
from tests.cluster.stores import Harm

#: Seconds; leases are of 3 s.
AT_ONCE, MOMENT, SHORT, LONGER_THAN_A_LEASE = (0.0, 0.1), (0.2, 1.0), (1.0, 3.0), (3.5, 7.0)
#: Seconds by which a wall clock is wrong.
CLOCK_ERRORS = (-3600, -600, -90, -2, 2, 90, 600, 3600)
#: How often each comes: what befalls everybody leaves little to be demanded meanwhile.
_OF_PROCESSES, _OF_ONE, _OF_ALL = 3, 2, 1


@dataclass(frozen=True)
class Draw:
    """How often a kind of fault comes, and what draws one; it may find nothing to do it to."""

    weight: int
    draw: Callable[[Random], Fault | None]


def catalogue(cluster: Cluster) -> dict[str, Draw]:
    """Return all that can be done to this cluster, by what tables call it."""
    draws = {
        "kill": _killed(cluster, "kill", SHORT),
        "kill, restart at once": _killed(cluster, "kill, restart at once", AT_ONCE),
        for_all("kill"): _on_all(cluster, lambda places: Killed(for_all("kill"), places, 0.1)),
        "stop": _on_process(cluster, lambda place, _: Stopped("stop", [place], 0.1)),
        for_all("stop"): _on_all(cluster, lambda places: Stopped(for_all("stop"), places, 0.1)),
        "freeze": _frozen(cluster, "freeze", SHORT),
        "freeze, longer than a lease": _frozen(
            cluster, "freeze, longer than a lease", LONGER_THAN_A_LEASE
        ),
    }
    for mode in sorted({mode for place in cluster.places for mode in place.way.modes()}):
        draws[mode] = _on_ways(cluster, mode, mode, everywhere=False)
        draws[for_all(mode)] = _on_ways(cluster, for_all(mode), mode, everywhere=True)
    for harm in cluster.store.harms():
        draws[harm.kind] = _on_store(cluster, harm)
    if any(place.wall_clock is not None for place in cluster.places):
        draws["wall clock set"] = _on_clock(cluster, "wall clock set")
    return draws


def for_all(kind: str) -> str:
    """Return what it is called where a kind of fault befalls everybody."""
    return f"{kind}, for all"


def _on_process(cluster: Cluster, make: Callable[[Place, Random], Fault]) -> Draw:
    def draw(chance: Random) -> Fault | None:
        up = [place for place in cluster.places if place.state is State.UP]
        return make(chance.choice(up), chance) if up else None

    return Draw(_OF_PROCESSES, draw)


def _on_all(cluster: Cluster, make: Callable[[Sequence[Place]], Fault]) -> Draw:
    def draw(chance: Random) -> Fault | None:
        is_up = all(place.state is State.UP for place in cluster.places)
        return make(cluster.places) if is_up else None

    return Draw(_OF_ALL, draw)


def _killed(cluster: Cluster, kind: str, lasts: tuple[float, float]) -> Draw:
    return _on_process(cluster, lambda place, chance: Killed(kind, [place], chance.uniform(*lasts)))


def _frozen(cluster: Cluster, kind: str, lasts: tuple[float, float]) -> Draw:
    return _on_process(
        cluster,
        lambda place, chance: Frozen(
            kind, place, chance.uniform(*lasts), cluster.store, cluster.places
        ),
    )


def _on_ways(cluster: Cluster, kind: str, mode: str, *, everywhere: bool) -> Draw:
    def draw(chance: Random) -> Fault:
        places: Sequence[Place] = [p for p in cluster.places if mode in p.way.modes()]
        if not everywhere:
            places = [chance.choice(places)]
        # the same harm for all of them
        seed = chance.random()
        return WayLost(
            kind, places, length(chance), lambda place: place.way.modes()[mode](Random(seed))
        )

    return Draw(_OF_ALL if everywhere else _OF_ONE, draw)


def _on_store(cluster: Cluster, harm: Harm) -> Draw:
    def draw(chance: Random) -> Fault | None:
        if cluster.store.is_blocked():
            return None
        return StoreHarmed(harm, cluster.places, length(chance))

    return Draw(_OF_ALL, draw)


def _on_clock(cluster: Cluster, kind: str) -> Draw:
    def draw(chance: Random) -> Fault:
        place = chance.choice([p for p in cluster.places if p.wall_clock is not None])
        error, later = chance.sample(CLOCK_ERRORS, 2)
        return ClockSet(kind, place, chance.uniform(*SHORT), error, later)

    return Draw(_OF_ONE, draw)


def length(chance: Random) -> float:
    """Draw for how many seconds something is away."""
    return chance.uniform(*chance.choice((MOMENT, SHORT, SHORT, LONGER_THAN_A_LEASE)))
