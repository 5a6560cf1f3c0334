"""Three `anarchon-beat` processes on one store, and everything a bad day can do to them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from anarchon.schedules import Cron, Every, Schedule
from tests.cluster.processes import Cluster, Instance
from tests.cluster.slot_check import check

SCHEDULES: dict[str, Schedule] = {
    "each-second": Every(1),
    "each-two-seconds": Every(2),
    "short-lease": Every(1),
    "each-minute": Cron("* * * * *"),
}
#: Longer than jitter and a claim take, on a machine that is busy with other tests too.
PATIENCE = 2.0


def filesystem_broker(folder: Path) -> tuple[str, dict[str, str]]:
    queue = folder / "queue"
    queue.mkdir()
    (folder / "control").mkdir()
    options = {"data_folder_in": str(queue), "data_folder_out": str(queue)}
    return "filesystem://", {**options, "control_folder": str(folder / "control")}


@pytest.fixture(params=["redis-8.0", "postgres-18", "sqlite"])
def cluster(request, servers, tmp_path) -> Iterator[Cluster]:
    options: dict[str, str] = {}
    server = None
    if request.param.startswith("redis"):
        # its own: queue and history of another test would be found on a shared one
        server = servers.start(request.param)
        store, broker = server.url(), server.url()
    elif request.param.startswith("postgres"):
        store = f"{servers.get(request.param).url()}?schema={tmp_path.name.lower()}"
        broker, options = filesystem_broker(tmp_path)
    else:
        store = f"sqlite:///{tmp_path}/anarchon.db"
        broker, options = filesystem_broker(tmp_path)
    with Cluster(tmp_path, store, broker, options) as cluster:
        yield cluster
    if server is not None:
        server.stop()


def harmed_publishers(cluster: Cluster) -> dict[tuple[str, str], bool]:
    """Say of each slot whether its first attempt was cut short by what the test did."""
    harmed = {i.name: i.harmed for i in cluster.instances if i.harmed}
    return {
        (a["job"], a["slot"]): a["state"] == "lost" and a["instance"] in harmed
        for a in cluster.history()
        if a["attempt"] == 1
    }


def replace(cluster: Cluster, old: Instance) -> Instance:
    cluster.kill(old)
    new = cluster.start_instance()
    cluster.wait_until_ready(new)
    return new


@pytest.mark.timeout(300)
def test_every_slot_is_published_once_while_instances_are_killed_frozen_and_restarted(cluster):
    """G1, G2, G6, G8."""
    bad_days(cluster, days=1)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_every_slot_is_published_once_on_ten_bad_days(cluster):
    """G1, G2, G6, G8."""
    bad_days(cluster, days=10)


def bad_days(cluster: Cluster, days: int) -> None:
    cluster.start_worker()
    instances = [cluster.start_instance() for _ in range(3)]
    cluster.wait_until_ready(*instances)
    for _ in range(days):
        instances = bad_day(cluster, instances)
    cluster.stop(*instances)

    records = cluster.wait_until_consumed()
    ups = [up for instance in cluster.instances for up in instance.ups]
    verdict = check(SCHEDULES, records, ups, harmed_publishers(cluster), PATIENCE)
    print(f"{verdict.demanded} demanded, {len(records)} ran, excused: {verdict.excused}")  # noqa: T201
    assert verdict.demanded > 150 * days
    assert verdict.missed == []
    assert verdict.phantom == []
    assert verdict.doubled == []
    assert {a["state"] for a in cluster.history()} <= {"published", "lost", "interrupted"}


def bad_day(cluster: Cluster, instances: list[Instance]) -> list[Instance]:
    """Freeze one for a minute, kill the others in turn, then kill and then stop all at once."""
    one, two, three = instances
    cluster.freeze(one)
    frozen_at = time.monotonic()
    for _ in range(4):
        two = replace(cluster, two)
        time.sleep(1.37)
        three = replace(cluster, three)
        time.sleep(1.11)
    time.sleep(max(0.0, 61 - (time.monotonic() - frozen_at)))
    cluster.thaw(one)
    time.sleep(3)

    for instance in (one, two, three):
        cluster.kill(instance)
    one, two, three = start_together(cluster)
    time.sleep(4)
    cluster.stop(one, two, three)
    one, two, three = start_together(cluster)
    time.sleep(20)  # what the killed ones held has lapsed and was taken over by then
    return [one, two, three]


def start_together(cluster: Cluster) -> tuple[Instance, Instance, Instance]:
    started = (cluster.start_instance(), cluster.start_instance(), cluster.start_instance())
    cluster.wait_until_ready(*started)
    return started


@pytest.mark.timeout(180)
def test_a_publisher_killed_between_the_send_and_its_note_makes_a_second_message_and_no_more(
    cluster,
):
    """G6: the one window in which a slot is published twice; the second message says so."""
    cluster.start_worker()
    doomed = cluster.start_instance(CLUSTER_DIES_AFTER_SEND="1")
    doomed.process.wait(60)
    doomed.harmed.append(time.time())
    others = [cluster.start_instance() for _ in range(2)]
    cluster.wait_until_ready(*others)
    time.sleep(28)  # a lease, two heartbeats, and a little more
    cluster.stop(*others)

    records = cluster.wait_until_consumed()
    ups = [up for instance in others for up in instance.ups]
    verdict = check(SCHEDULES, records, ups, harmed_publishers(cluster), PATIENCE)
    assert verdict.missed == []
    assert verdict.phantom == []
    assert verdict.doubled == []
    [twice] = verdict.excused
    assert twice.endswith("attempts [1, 2]")


@pytest.mark.timeout(120)
def test_the_history_tells_which_instance_ran_what(cluster):
    cluster.start_worker()
    instances = [cluster.start_instance() for _ in range(3)]
    cluster.wait_until_ready(*instances)
    time.sleep(8)
    names = {instance.name for instance in instances}
    cluster.stop(*instances)

    attempts = cluster.history()

    assert {a["instance"] for a in attempts} <= names
    assert len({a["instance"] for a in attempts}) > 1
    ran = {(r["job"], r["slot"]): r["message"] for r in cluster.wait_until_consumed()}
    assert {(a["job"], a["slot"]): a["detail"] for a in attempts} == ran
    assert len({a["slot"] for a in attempts}) >= 7
