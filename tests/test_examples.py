"""Every example, run as a user would run it: real processes, and the records they leave."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from anarchon import SystemClock
from tests.servers import ServersForTests
from tests.servers.redis import RedisServer

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
BIN = Path(sys.executable).parent
CLOCK = SystemClock()
PATIENCE = 40.0

pytestmark = pytest.mark.cluster


def test_the_service_runs_each_slot_once_in_three_processes(tmp_path: Path) -> None:
    records = tmp_path / "records.jsonl"
    service = [sys.executable, str(EXAMPLES / "service" / "service.py")]

    with started(tmp_path, service), started(tmp_path, service), started(tmp_path, service):
        wait_for(lambda: len(slots_of("sample", records)) >= 4, "four slots of sample")

    assert_complete_and_single(slots_of("sample", records), timedelta(seconds=1))
    assert_complete_and_single(slots_of("report", records), timedelta(seconds=2))


def test_four_uvicorn_workers_run_each_slot_once(tmp_path: Path) -> None:
    folder = str(EXAMPLES / "fastapi_app")
    uvicorn = [BIN / "uvicorn", "--app-dir", folder, "app:app", "--workers", "4"]

    check_web_workers(tmp_path, [*uvicorn, "--port", free_port()], "Application startup complete")


def test_four_gunicorn_workers_run_each_slot_once(tmp_path: Path) -> None:
    folder = str(EXAMPLES / "fastapi_app")
    gunicorn = [BIN / "gunicorn", "--pythonpath", folder, "app:app", "--workers", "4", "-k", "asgi"]
    address = f"127.0.0.1:{free_port()}"

    check_web_workers(
        tmp_path,
        [*gunicorn, "--bind", address, "--no-control-socket"],
        "ASGI server listening",
    )


def test_three_anarchon_beats_publish_each_slot_of_a_celery_project_once(tmp_path: Path) -> None:
    records = tmp_path / "celery_app_data" / "records.jsonl"
    worker = [BIN / "celery", "-A", "proj", "worker", "--pool", "solo", "-l", "warning"]
    beat = [BIN / "anarchon-beat", "-A", "proj", "-l", "info"]

    with (
        started(tmp_path, worker, PYTHONPATH=str(EXAMPLES / "celery_app")),
        started(tmp_path, beat, PYTHONPATH=str(EXAMPLES / "celery_app")),
        started(tmp_path, beat, PYTHONPATH=str(EXAMPLES / "celery_app")),
        started(tmp_path, beat, PYTHONPATH=str(EXAMPLES / "celery_app")),
    ):
        wait_for(lambda: len(slots_of("sample-every-second", records)) >= 4, "four messages")

    assert_complete_and_single(slots_of("sample-every-second", records), timedelta(seconds=1))


def test_three_dramatiq_workers_run_each_slot_once(
    tmp_path: Path, servers: ServersForTests
) -> None:
    redis = servers.get("redis-8.0")
    assert isinstance(redis, RedisServer)
    records = tmp_path / "records.jsonl"
    worker = [BIN / "dramatiq", "tasks", "-p", "2", "-t", "2"]
    given = {"PYTHONPATH": str(EXAMPLES / "dramatiq_app"), "REDIS": redis.url(database=14)}

    with (
        started(tmp_path, worker, **given),
        started(tmp_path, worker, **given),
        started(tmp_path, worker, **given),
    ):
        wait_for(lambda: len(slots_of("sample-every-second", records)) >= 4, "four messages")
        wait_for(lambda: len(slots_of("collect", records)) >= 2, "two runs that are followed")

    assert_complete_and_single(slots_of("sample-every-second", records), timedelta(seconds=1))
    assert_complete_and_single(slots_of("collect", records), timedelta(seconds=2))


def check_web_workers(tmp_path: Path, command: list[Any], ready: str) -> None:
    records = tmp_path / "records.jsonl"

    with started(tmp_path, command) as log:
        wait_for(lambda: log.read_text().count(ready) == 4, f"four times {ready!r} in the log")
        before = len(slots_of("refresh", records))
        wait_for(lambda: len(slots_of("refresh", records)) >= before + 4, "four more slots")

    assert_complete_and_single(slots_of("refresh", records), timedelta(seconds=1))


@contextmanager
def started(folder: Path, command: list[Any], **environment: str) -> Iterator[Path]:
    """Run a process until the block ends; it must then stop by itself, and without an error."""
    log = folder / f"{Path(command[0]).name}-{os.urandom(4).hex()}.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [str(part) for part in command],
            cwd=folder,
            env={**os.environ, **environment},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield log
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0, log.read_text()
    except BaseException as error:
        error.add_note(f"{log.name}:\n{log.read_text()[-4000:]}")
        raise
    finally:
        if process.poll() is None:
            # its workers are in its session
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def slots_of(job: str, records: Path) -> list[datetime]:
    if not records.exists():
        return []
    lines = [json.loads(line) for line in records.read_text().splitlines()]
    return [datetime.fromisoformat(line["slot"]) for line in lines if line.get("job") == job]


def assert_complete_and_single(slots: list[datetime], interval: timedelta) -> None:
    first, last = min(slots), max(slots)
    expected = [first + number * interval for number in range((last - first) // interval + 1)]
    assert Counter(slots) == Counter(expected)


def wait_for(condition: Callable[[], bool], what: str) -> None:
    nobody = threading.Event()
    until = CLOCK.monotonic() + PATIENCE
    while not condition():
        if CLOCK.monotonic() > until:
            raise AssertionError(f"not within {PATIENCE:.0f} s: {what}")
        nobody.wait(0.1)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
