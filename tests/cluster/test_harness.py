"""What chaos relies on: clocks that lie, an earlier commit, a store of ours, faults that end."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import pytest

from anarchon.backends.postgres.schema import migrations
from tests.cluster import chaos, clocks, hosts, nemesis, released
from tests.cluster.clocks import WallClock, find_library
from tests.cluster.cluster import Cluster
from tests.cluster.faults import Stopped
from tests.cluster.hosts import Hosts
from tests.cluster.nemesis import Nemesis
from tests.cluster.places import Kind
from tests.cluster.stores import started
from tests.cluster.true_time import boot
from tests.cluster.ways import Straight
from tests.servers import ServersForTests, Unavailable, ask_or_skip

_TELL_TIMES = """
import datetime, sys, time
for line in sys.stdin:
    wall = datetime.datetime.now(datetime.UTC)
    print(wall.isoformat(), time.clock_gettime(time.CLOCK_BOOTTIME), flush=True)
"""
CLOSE = timedelta(seconds=2)


def test_a_wall_clock_is_set_while_a_process_runs_and_the_time_since_boot_stays_true(
    servers, tmp_path
):
    servers.fetched("libfaketime")
    clock = WallClock(find_library(), tmp_path / "clock", error=-600)
    told = subprocess.Popen(
        [sys.executable, "-c", _TELL_TIMES],
        env={**os.environ, **clock.environment()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    errors = [error_of(told)]
    clock.set(3600)
    errors.append(error_of(told))
    told.communicate()

    assert abs(errors[0] - timedelta(seconds=-600)) < CLOSE
    assert abs(errors[1] - timedelta(seconds=3600)) < CLOSE


def error_of(process: subprocess.Popen[str]) -> timedelta:
    """Return by how much a process takes the wall clock to be wrong."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("?\n")
    process.stdin.flush()
    wall, since_boot = process.stdout.readline().split()
    assert abs(float(since_boot) - boot()) < CLOSE.total_seconds()
    return datetime.fromisoformat(wall) - datetime.now(UTC)


def test_the_earlier_commit_wins_over_ours_in_every_package(tmp_path):
    path = ask_or_skip("the earlier commit", lambda: released.unpack(tmp_path / "released"))
    packages = ("anarchon", "anarchon_beat", "anarchon_celery")
    program = "; ".join(f"import {name}; print({name}.__file__)" for name in packages)

    told = subprocess.run(
        [sys.executable, "-c", program],
        # where an instance is started, which is not a checkout
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()

    assert all(tmp_path in Path(file).parents for file in told)
    assert len(told) == len(packages)


def without_the_library(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> Path:
        raise Unavailable("no network")

    # which may be missing here, too
    monkeypatch.setattr(released, "unpack", str)
    monkeypatch.setattr(clocks, "fetch", refuse)
    monkeypatch.setattr(cluster.store, "has_its_own_clock", True)
    chaos.settle(cluster, lambda number: Straight(None))


def without_the_commit(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(released, "TREE", "f" * 40)
    chaos.settle(cluster, lambda number: Straight(None))


def without_root(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    Hosts(1).__enter__()


def without_programs(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    Hosts(1).__enter__()


def without_the_right(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(command: list[str]) -> None:
        raise subprocess.CalledProcessError(1, command, stderr=b"Operation not permitted")

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr(hosts, "_sweep", lambda: None)
    monkeypatch.setattr(hosts, "_run", refuse)
    Hosts(1).__enter__()


@pytest.mark.parametrize(
    ("without", "reason"),
    [
        (without_the_library, "libfaketime: no network"),
        (without_the_commit, "the earlier commit: fffffff is not in this clone"),
        (without_root, "network namespaces: only root"),
        (without_programs, "network namespaces: there is no ip, .* iproute2"),
        (without_the_right, "network namespaces: ip netns add .* not permitted"),
    ],
)
@pytest.mark.parametrize(
    ("required", "told"), [("redis", pytest.skip.Exception), ("all", pytest.fail.Exception)]
)
def test_what_cannot_be_had_skips_chaos_or_fails_it_where_all_is_required(
    without, reason, required, told, servers, tmp_path, monkeypatch
):
    monkeypatch.setenv("ANARCHON_REQUIRE_BACKENDS", required)

    with (
        on_sqlite(servers, tmp_path) as cluster,
        # either is caught: a skip that goes through would skip this test, and hide that it fails
        pytest.raises((pytest.skip.Exception, pytest.fail.Exception), match=reason) as heard,
    ):
        without(cluster, monkeypatch)

    assert heard.type is told


@contextmanager
def on_sqlite(servers: ServersForTests, folder: Path) -> Iterator[Cluster]:
    with started(servers, folder, "sqlite") as store, Cluster(folder, store, "memory://") as made:
        yield made


def test_our_code_makes_the_schema_before_anybody_starts(servers, tmp_path):
    """Or the functions of a database were at times those of the earlier commit, all through."""
    with (
        started(servers, tmp_path, "postgres-18") as store,
        Cluster(tmp_path, store, "memory://") as cluster,
    ):
        straight = Straight(store.address)
        chaos.settle(cluster, lambda number: straight)
        url = store.url(straight.host, straight.port)

        assert asyncio.run(version_of(url)) == len(migrations())
        assert not any(place.starts for place in cluster.places)


async def version_of(url: str) -> int | None:
    connection = await asyncpg.connect(url)
    try:
        version: int | None = await connection.fetchval(
            "select max(version) from anarchon.migration"
        )
        return version
    finally:
        await connection.close()


DEAF = """
import json, os, pathlib, signal, sys, threading
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("deaf to everything")
pathlib.Path(sys.argv[2]).write_text(json.dumps({"pid": os.getpid(), "ready": True}))
threading.Event().wait()
"""


def test_a_process_that_never_stops_ends_the_chaos_with_its_last_words(
    servers, tmp_path, monkeypatch
):
    monkeypatch.setattr(nemesis, "HEALED_WITHIN", 0.5)
    with on_sqlite(servers, tmp_path) as cluster:
        deaf = cluster.add(Kind("deaf", [sys.executable, "-c", DEAF], []), Straight(None))
        cluster.start(deaf)
        chaos_of_one = Nemesis(cluster, {}, seed=0, every=1)
        chaos_of_one.inject(Stopped("stop", [deaf], lasts=0))

        with pytest.raises(AssertionError, match=r"stop: process of .*\n*deaf to everything"):
            chaos_of_one.rest(0)
