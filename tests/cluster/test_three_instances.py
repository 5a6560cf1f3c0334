"""Three `anarchon-beat` processes on one store: what one bad moment costs, and who tells of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from anarchon.testing.checker import check
from tests.cluster.cluster import Cluster
from tests.cluster.judging import PATIENCE, Aftermath
from tests.cluster.kinds import celery_beat
from tests.cluster.stores import started
from tests.cluster.true_time import now
from tests.cluster.ways import Straight


@pytest.fixture(
    params=[
        "redis-8.0",
        pytest.param("postgres-18", marks=pytest.mark.soak),
        pytest.param("sqlite", marks=pytest.mark.soak),
    ]
)
def cluster(request, servers, tmp_path) -> Iterator[Cluster]:
    # its own: the queue of another test would be found on a shared one
    broker = servers.start("redis-8.0")
    with (
        started(servers, tmp_path, request.param) as store,
        Cluster(tmp_path, store, broker.url()) as cluster,
    ):
        cluster.start_worker()
        yield cluster
    broker.stop()


@pytest.mark.timeout(180)
def test_a_publisher_killed_between_the_send_and_its_note_makes_a_second_message_and_no_more(
    cluster,
):
    """G6: the one window in which a slot is published twice; the second message says so."""
    doomed = cluster.add(
        celery_beat(), Straight(cluster.store.address), CLUSTER_DIES_AFTER_SEND="1"
    )
    others = [cluster.add(celery_beat(), Straight(cluster.store.address)) for _ in range(2)]
    doomed.start()
    cluster.wait_for(doomed.has_killed_itself, 60, doomed.log)
    cluster.start(*others)
    cluster.watch(8)  # a lease, two heartbeats, and a little more
    until = now()
    cluster.stop(*others)
    cluster.wait_until_consumed()

    aftermath = Aftermath(cluster, [], cluster.notes.read(), until)
    verdict = check(aftermath.evidence, patience=PATIENCE)

    [sent] = [body for body in aftermath.bodies if body.instance == doomed.instance]
    of_its_slot = [b for b in aftermath.bodies if (b.job, b.slot) == (sent.job, sent.slot)]
    assert [body.attempt for body in of_its_slot] == [1, 2]
    # and of no other slot, unless the machine froze whoever published it
    assert verdict.findings == ()


@pytest.mark.timeout(120)
def test_the_history_tells_which_instance_ran_what(cluster):
    places = [cluster.add(celery_beat(), Straight(cluster.store.address)) for _ in range(3)]
    cluster.start(*places)
    cluster.watch(8)
    cluster.stop(*places)
    cluster.wait_until_consumed()

    # what was given back unsent when all were told to stop, nobody ran
    attempts = [a for a in cluster.history() if a["state"] != "interrupted"]

    assert {a["instance"] for a in attempts} <= {place.shown_name() for place in places}
    assert len({a["instance"] for a in attempts}) > 1
    ran = {
        (n["job"], n["slot"]): n["message"] for n in cluster.notes.read() if n["what"] == "message"
    }
    assert {(a["job"], a["slot"]): a["detail"] for a in attempts} == ran
    assert len({a["slot"] for a in attempts}) >= 7
