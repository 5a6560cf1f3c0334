"""One run of chaos from its people to its verdict; a test says on what, how long and how dense."""

from __future__ import annotations

import asyncio
import os
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from anarchon.backends import open_backend
from anarchon.testing.checker import check
from tests.cluster import released
from tests.cluster.catalogue import Draw
from tests.cluster.clocks import WallClock, find_library
from tests.cluster.cluster import Cluster
from tests.cluster.faults import Killed, StartedLate
from tests.cluster.figures import PROPERTY, as_table, figures, keep
from tests.cluster.judging import PATIENCE, Aftermath
from tests.cluster.kinds import celery_beat, service
from tests.cluster.nemesis import Nemesis
from tests.cluster.noted import bodies_of
from tests.cluster.places import Place, State
from tests.cluster.pulse import Pulse
from tests.cluster.stores import Store
from tests.cluster.true_time import now
from tests.cluster.ways import Straight, Way
from tests.servers import ask_or_skip

#: After the last fault: what lapsed is taken over by then, and what was sent has arrived.
QUIET = 15.0
#: Until when nobody is at the last place.
LATE = 12.0
KINDS = (celery_beat, service)
PLACES_OF_A_KIND = 3
PLACES = PLACES_OF_A_KIND * len(KINDS)
SEED = 20261129

#: Takes a name and what is to be told under it, as pytest's `record_property` does.
Report = Callable[[str, object], None]


@dataclass(frozen=True)
class Plan:
    """How long the nemesis works, every how many seconds, and by which seed."""

    name: str
    seconds: float
    every: float
    seed: int = int(os.environ.get("ANARCHON_CHAOS_SEED", SEED))


def settle(cluster: Cluster, way_of: Callable[[int], Way], broker: str | None = None) -> None:
    """Make the places: half of them start with an earlier commit, most have a clock that lies.

    ``way_of`` gives the way of each place, by its number from 0.
    """
    earlier = ask_or_skip(
        "the earlier commit", lambda: released.unpack(cluster.folder / "released")
    )
    library = ask_or_skip("libfaketime", find_library) if cluster.store.has_its_own_clock else None
    asyncio.run(_open_with_our_code(cluster.store))
    for number in range(PLACES):
        kind = KINDS[number // PLACES_OF_A_KIND](claims_only=not cluster.store.keeps_leases)
        clock = None
        if library is not None and number % PLACES_OF_A_KIND != 0:
            clock = WallClock(library, cluster.folder / f"clock{number}")
        other_code = earlier if number % 2 else None
        way = way_of(number)
        cluster.add(kind, way, broker=broker, wall_clock=clock, other_code=other_code)


async def _open_with_our_code(store: Store) -> None:
    """Be the first there: whoever is installs the functions in a database that all will call."""
    way = Straight(store.address)
    connection = open_backend(store.url(way.host, way.port)).connect("default")
    try:
        await connection.open()
    finally:
        await connection.close()


def run(cluster: Cluster, plan: Plan, draws: Mapping[str, Draw], report: Report) -> None:
    """Start everybody, let the nemesis do its work, and judge what came of it."""
    print(f"repeat it with ANARCHON_CHAOS_SEED={plan.seed}")  # noqa: T201
    nemesis = Nemesis(cluster, draws, seed=plan.seed, every=plan.every)
    cluster.start_worker()
    *early, late = cluster.places
    cluster.start(*early)
    with Pulse(cluster.store) as pulse:
        nemesis.inject(StartedLate("started late", [late], lasts=LATE))
        nemesis.run(plan.seconds)
        cluster.wait_until_ready(*cluster.places)
        # one more, for sure in the midst of work, and then nothing that would excuse a late
        # takeover
        nemesis.inject(Killed("kill", [_busy_place(cluster)], lasts=QUIET / 2))
        nemesis.rest(QUIET)
        until = now()
    # who is still starting could not be told to stop
    cluster.wait_until_ready(*cluster.places)
    cluster.stop(*cluster.places)
    cluster.wait_until_consumed()
    notes = cluster.notes.read()
    aftermath = Aftermath(cluster, nemesis.faults, notes, until, pulse.stalls)
    _judge(plan, nemesis, aftermath, report)


def _busy_place(cluster: Cluster) -> Place:
    """Return the place of an instance that has begun something and not ended it."""
    cluster.wait_for(lambda: _busy(cluster) is not None, 30, lambda: "nobody works")
    place = _busy(cluster)
    assert place is not None
    return place


def _busy(cluster: Cluster) -> Place | None:
    at_work = {body.instance for body in bodies_of(cluster.notes.read()) if body.ended is None}
    up = [place for place in cluster.places if place.state is State.UP]
    return next((place for place in up if place.instance in at_work), None)


#: Seconds; a longer run has moments in which somebody is well.
_LONG = 200.0


def _judge(plan: Plan, nemesis: Nemesis, aftermath: Aftermath, report: Report) -> None:
    """Check what was promised, and tell the figures."""
    folder = aftermath.folder
    (folder / "evidence.pickle").write_bytes(pickle.dumps(aftermath.evidence))
    verdict = check(aftermath.evidence, patience=PATIENCE)
    told = figures(plan.name, plan.seconds, nemesis.faults, aftermath, verdict)
    keep(told, folder)
    report(PROPERTY, as_table(told))
    print(as_table(told), *nemesis.faults, sep="\n")  # noqa: T201
    # in a minute full of faults nobody may be well for long enough to have to start anything,
    # and yet everybody is at work
    assert verdict.demanded > 0 or plan.seconds < _LONG
    assert len(aftermath.bodies) > 2 * plan.seconds
    assert verdict.findings == ()
    assert [takeover for takeover in aftermath.takeovers() if takeover.is_late] == []
    assert [recovery for recovery in aftermath.recoveries() if recovery.delay is None] == []
