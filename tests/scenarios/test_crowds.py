"""Many processes on one real store: they register at once, and each slot runs once."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from anarchon.clock import SystemClock
from tests.servers import ServersForTests

RUNNER = Path(__file__).parent / "runner.py"
PROCESSES, JOBS = 8, 350
CLOCK = SystemClock()

pytestmark = pytest.mark.cluster


@pytest.fixture(
    params=[
        pytest.param("redis-8.0", marks=pytest.mark.xdist_group("redis-8.0")),
        pytest.param("postgres-18", marks=pytest.mark.xdist_group("postgres-18")),
        "sqlite",
    ]
)
def store(
    request: pytest.FixtureRequest, servers: ServersForTests, tmp_path: Path
) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/anarchon.db"
        return
    # its own: a shared one may be paused, full or a standby after another test
    server = servers.start(request.param)
    yield server.url()
    server.stop()


@contextmanager
def crowd(store: str, records: Path) -> Iterator[list[subprocess.Popen[str]]]:
    command = [sys.executable, str(RUNNER), store, str(JOBS), str(records)]
    with (records.parent / "log").open("w") as log:
        processes = [
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
            for _ in range(PROCESSES)
        ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def tell(processes: list[subprocess.Popen[str]], what: object) -> None:
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(f"{what}\n")
        process.stdin.flush()


@pytest.mark.timeout(170)
def test_eight_processes_that_register_at_once_run_each_slot_once(
    store: str, tmp_path: Path
) -> None:
    """G1, G2, G11: by the same definition in each of them, and without a word of a conflict."""
    records, nobody = tmp_path / "records", threading.Event()
    records.touch()

    with crowd(store, records) as processes:
        moment = (CLOCK.wall() + timedelta(seconds=3)).replace(microsecond=0)
        tell(processes, moment.timestamp())
        end = CLOCK.monotonic() + 100
        while records.read_text().count("\n") < JOBS and CLOCK.monotonic() < end:
            nobody.wait(0.1)
        # a double would come at once: whoever is late has caught up, or looked, by then
        nobody.wait(1.0)
        tell(processes, "end")
        codes = [process.wait(40) for process in processes]

    noted = [json.loads(line) for line in records.read_text().splitlines()]
    logs = (tmp_path / "log").read_text()
    ran = Counter(one["job"] for one in noted if "event" not in one)
    assert ran == {f"job {number}": 1 for number in range(JOBS)}, logs[-3000:]
    assert [one for one in noted if "event" in one] == []
    assert {one["attempt"] for one in noted} == {1}
    assert codes == [0] * PROCESSES
    # a machine that is busy may answer late; that two wanted one thing is never told
    about_load = ("store away", "store back", "heartbeat")
    told = [line for line in logs.splitlines() if not any(word in line for word in about_load)]
    assert told == []
