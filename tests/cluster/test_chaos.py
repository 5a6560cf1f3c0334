"""Chaos: instances, stores, ways and clocks fail as a seed says, and a checker judges what ran.

`ANARCHON_CHAOS_SEED` picks another seed, `ANARCHON_SOAK_MINUTES` how long each store is soaked
(15), `ANARCHON_FIGURES` a file to which each run adds its figures as a line of JSON.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from tests.cluster import chaos
from tests.cluster.catalogue import catalogue, for_all
from tests.cluster.chaos import Plan
from tests.cluster.cluster import Cluster
from tests.cluster.hosts import Hosts
from tests.cluster.network import Proxy
from tests.cluster.stores import CLAIMS_ONLY, started
from tests.cluster.ways import ProxyWay, Straight, Way
from tests.servers import Server
from tests.servers.process import HOST

SOAK_MINUTES = float(os.environ.get("ANARCHON_SOAK_MINUTES", "15"))


@pytest.fixture
def broker(servers) -> Iterator[Server]:
    """A queue of this test alone, that nothing befalls."""
    server = servers.start("redis-8.0")
    yield server
    server.stop()


Chaos = Callable[[Plan], None]


@pytest.fixture
def on_this_host(servers, broker, tmp_path, record_property) -> Chaos:
    """Everything that can fail, and a proxy of ours on each way to the store."""

    def bring(plan: Plan) -> None:
        with (
            started(servers, tmp_path, plan.name) as store,
            Cluster(tmp_path, store, broker.url()) as cluster,
        ):
            address = store.address

            def way_of(number: int) -> Way:
                if address is None:
                    return Straight(None)
                return ProxyWay(cluster.left.enter_context(Proxy(address)))

            chaos.settle(cluster, way_of)
            chaos.run(cluster, plan, catalogue(cluster), record_property)

    return bring


@pytest.fixture
def on_many_hosts(servers, broker, tmp_path, record_property) -> Chaos:
    """Each instance on a host of its own, and the faults that hosts and networks have."""

    def bring(plan: Plan) -> None:
        with (
            started(servers, tmp_path, plan.name) as store,
            Hosts(chaos.PLACES) as hosts,
            Cluster(tmp_path, store, broker.url()) as cluster,
        ):
            address = store.address
            assert address is not None
            relay = hosts.relay((HOST, broker.port))
            told = f"redis://{relay.host}:{relay.port}/0"
            chaos.settle(cluster, lambda number: hosts.way(number + 1, address), told)
            modes = {mode for place in cluster.places for mode in place.way.modes()}
            wanted = {"kill", "freeze, longer than a lease", *modes, *map(for_all, modes)}
            draws = catalogue(cluster)
            chaos.run(cluster, plan, {kind: draws[kind] for kind in wanted}, record_property)

    return bring


@pytest.mark.timeout(400)
@pytest.mark.parametrize("store", ["redis-8.0", pytest.param("sqlite", marks=pytest.mark.soak)])
def test_no_slot_is_missed_or_doubled_whatever_fails(on_this_host, store):
    """G1, G2, G3, G4, G6, G8."""
    on_this_host(Plan(store, seconds=45, every=2.5))


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("store", ["redis-8.0", "valkey-9", "postgres-18", "sqld", "sqlite"])
def test_no_slot_is_missed_or_doubled_however_long_things_fail(on_this_host, store):
    """G1, G2, G3, G4, G6, G8."""
    on_this_host(Plan(store, seconds=60 * SOAK_MINUTES, every=5.0))


@pytest.mark.soak
@pytest.mark.timeout(400)
@pytest.mark.parametrize("store", CLAIMS_ONLY)
def test_no_slot_is_doubled_where_there_are_no_leases_and_none_missed_but_by_who_won_it(
    on_this_host, store
):
    """G1, G2."""
    on_this_host(Plan(store, seconds=65, every=2.5))


@pytest.mark.timeout(400)
def test_no_slot_is_missed_or_doubled_between_hosts_whose_packets_get_lost(on_many_hosts):
    """G1, G2, G6, G8."""
    on_many_hosts(Plan("redis-8.0", seconds=40, every=2.5))


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("store", ["redis-8.0", "postgres-18"])
def test_no_slot_is_missed_or_doubled_however_long_packets_get_lost(on_many_hosts, store):
    """G1, G2, G6, G8."""
    on_many_hosts(Plan(store, seconds=60 * SOAK_MINUTES / 3, every=5.0))
