"""One run of chaos among tracked runs: schedulers, workers, and workers that are both."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random

from tests.cluster.brokers import broker_catalogue
from tests.cluster.catalogue import Draw, catalogue, length
from tests.cluster.chaos import Plan, Report
from tests.cluster.cluster import Cluster
from tests.cluster.faults import Fault, Killed
from tests.cluster.figures import PROPERTY, keep
from tests.cluster.kinds import tracked_beat, worker
from tests.cluster.nemesis import Nemesis
from tests.cluster.network import Proxy
from tests.cluster.places import Kind, Place
from tests.cluster.pulse import Pulse
from tests.cluster.stores import started
from tests.cluster.tracked_evidence import TrackedAftermath, starts_of
from tests.cluster.tracked_figures import as_table, figures
from tests.cluster.tracked_judging import judge
from tests.cluster.true_time import now
from tests.cluster.ways import ProxyWay
from tests.cluster.workers import ChildKilled, WorkerPlace, up
from tests.servers import Server, ServersForTests
from tests.servers.process import HOST

BEATS, WORKERS, HOSTS = 2, 2, 2
#: Brokers that forget nothing: their options, and their address by the one name they have.
BROKERS: Mapping[str, tuple[Sequence[str], str]] = {
    "redis-8.0": (("--appendfsync", "always"), "redis://broker:6379/0"),
    "rabbitmq-3.10": ((), "amqp://guest:guest@broker:5672/%2F"),
}
#: Before the first fault and after the last: all that was lost is over by then, and was redone.
CALM, QUIET = 6.0, 20.0


@contextmanager
def stage(
    servers: ServersForTests, folder: Path, plan: Plan, name: str = "redis-8.0"
) -> Iterator[tuple[Cluster, Server]]:
    """Start the store of a plan and a broker that forgets nothing, for a cluster on both."""
    options, address = BROKERS[name]
    broker = servers.start(name, *options)
    try:
        with (
            started(servers, folder, plan.name) as store,
            Cluster(folder, store, address) as cluster,
        ):
            yield cluster, broker
    finally:
        broker.stop()


def settle(
    cluster: Cluster,
    broker: Server,
    *,
    beats: Callable[[], Kind] = tracked_beat,
    workers: Callable[[], Kind] = worker,
    makes: type[WorkerPlace] = WorkerPlace,
) -> Mapping[Place, ProxyWay]:
    """Make the places, each with ways of its own; return those to the broker."""
    ways: dict[Place, ProxyWay] = {}
    for number in range(BEATS + WORKERS + HOSTS):
        is_beat, is_host = number < BEATS, number >= BEATS + WORKERS
        assert cluster.store.address is not None, "a store that workers share is a server"
        to_store, to_broker = (
            ProxyWay(cluster.left.enter_context(Proxy(address)))
            for address in (cluster.store.address, (HOST, broker.port))
        )
        place = cluster.add(
            beats() if is_beat else workers(),
            to_store,
            makes=Place if is_beat else makes,
            CLUSTER_BROKER_AT=f"{to_broker.host}:{to_broker.port}",
            CLUSTER_EMBEDDED="1" if is_host else "",
        )
        ways[place] = to_broker
    return ways


def all_draws(cluster: Cluster, broker: Server, ways: Mapping[Place, ProxyWay]) -> dict[str, Draw]:
    """Return all that can be done here; no store forgets: what was begun may begin again then."""
    draws = {**catalogue(cluster), **broker_catalogue(broker, ways, length)}
    draws.pop("store forgets", None)
    draws["pool child killed"] = Draw(3, lambda chance: _child_killed(cluster, chance))
    return draws


def _child_killed(cluster: Cluster, chance: Random) -> Fault | None:
    places = list(up(cluster.places))
    return ChildKilled("pool child killed", chance.choice(places), chance) if places else None


def run(
    cluster: Cluster,
    plan: Plan,
    draws: Mapping[str, Draw],
    report: Report,
    named: Sequence[str] = ("-A", "followed"),
) -> None:
    """Start everybody, let the nemesis do its work, and judge what came of it."""
    print(f"repeat it with ANARCHON_CHAOS_SEED={plan.seed}")  # noqa: T201
    nemesis = Nemesis(cluster, draws, seed=plan.seed, every=plan.every)
    cluster.start(*cluster.places)
    with Pulse(cluster.store) as pulse:
        nemesis.rest(CALM)
        nemesis.run(plan.seconds)
        cluster.wait_until_ready(*cluster.places)
        # one more, for sure in the midst of work
        nemesis.inject(Killed("kill", [_busy_worker(cluster)], lasts=1.0))
        nemesis.rest(QUIET)
        until = now()
        history = cluster.history(*named)
    cluster.stop(*cluster.places)
    aftermath = TrackedAftermath(
        cluster.places, nemesis.faults, cluster.notes.read(), history, until, pulse.stalls
    )
    (cluster.folder / "aftermath.pickle").write_bytes(pickle.dumps(aftermath))
    judged = judge(aftermath)
    told = figures(plan.name, plan.seconds, nemesis.faults, aftermath, judged)
    keep(told, cluster.folder)
    report(PROPERTY, as_table(told))
    print(as_table(told), *nemesis.faults, sep="\n")  # noqa: T201
    assert len(aftermath.starts) > plan.seconds
    assert judged.demanded > 0
    assert judged.findings == []


def _busy_worker(cluster: Cluster) -> Place:
    """Return the place of a worker that has begun something and not ended it."""
    cluster.wait_for(lambda: _busy(cluster) is not None, 30, lambda: "nobody works")
    place = _busy(cluster)
    assert place is not None
    return place


def _busy(cluster: Cluster) -> Place | None:
    at_work = {start.worker for start in starts_of(cluster.notes.read()) if not start.outcome}
    return next((place for place in up(cluster.places) if place.instance in at_work), None)
