"""The daemon, as a process: how it starts, what it says, and how it ends."""

import json
import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.beat.conftest import Beat, Process

Start = Callable[..., Process]

JOBS = """
import asyncio, threading
from anarchon import Scheduler

scheduler = Scheduler("sqlite:///store.db", namespace="shop", grace="500ms", lease="60s")
patient = Scheduler("sqlite:///store.db", namespace="shop", grace="60s", lease="60s")
idle = Scheduler("sqlite:///store.db", namespace="shop")

@scheduler.every("sync", "1s")
async def sync(ctx):
    pass

@scheduler.every("long", "1s")
async def long(ctx):
    print("LONG BEGINS", flush=True)
    await asyncio.Event().wait()

def stubborn(ctx):
    print("STUBBORN BEGINS", flush=True)
    threading.Event().wait()

busy = Scheduler("sqlite:///store.db", namespace="shop")

@busy.every("ask", "1s")
async def ask(ctx):
    asyncio.get_running_loop().run_in_executor(None, threading.Event().wait)
    print("THREAD BEGINS", flush=True)
    print("not written yet")

hasty = Scheduler("sqlite:///store.db", namespace="shop", grace="0s", lease="60s")
hasty.every("stubborn", "1s", stubborn)
patient.every("stubborn", "1s", stubborn)
"""

PROJECT = """
from celery import Celery, signals
app = Celery("shop", broker="memory://")
app.conf.anarchon_store = "sqlite:///store.db"
app.conf.beat_schedule = {"add": {"task": "shop.add", "schedule": 1.0}}
"""


#: As those who watch beat from inside do: they read what runs, and add to it.
BEAT_INIT = """
@signals.beat_init.connect(weak=False)
def tell(sender, **_):
    scheduler = sender.scheduler
    entry = scheduler.schedule["add"]
    print(
        "beat_init of", type(sender).__name__, f"{sender.schedule_filename}:",
        entry.name, entry.task, scheduler.max_interval, flush=True,
    )
    scheduler.add(name="more", task="shop.add", schedule=1.0)

@signals.beat_init.connect(weak=False)
def fail(sender, **_):
    raise ValueError("its own fault")
"""


@pytest.fixture(autouse=True)
def _jobs(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text(JOBS)
    (tmp_path / "proj.py").write_text(PROJECT)


def states(beat: Beat, name: str, job: str) -> list[str]:
    told = beat("-A", f"jobs:{name}", "history", "--job", job, "--json")
    return [attempt["state"] for attempt in json.loads(told.out)["attempts"]]


def test_sigterm_ends_it_with_code_0_and_leaves_nothing_behind(
    start: Start, tmp_path: Path
) -> None:
    daemon = start("-A", "jobs:idle", "-l", "info", "--pidfile", "beat.pid")
    daemon.read_until("beat: Starting...")
    assert (tmp_path / "beat.pid").read_text() == f"{daemon.pid}\n"

    code = daemon.end(signal.SIGTERM)

    assert code == 0
    assert "beat: Shutting down..." in daemon.output
    assert not (tmp_path / "beat.pid").exists()
    assert list(tmp_path.glob("anarchon-beat-*/*")) == []


def test_sigint_ends_it_with_code_130(start: Start) -> None:
    daemon = start("-A", "jobs:idle", "-l", "info")
    daemon.read_until("beat: Starting...")

    assert daemon.end(signal.SIGINT) == 130


def test_the_banner_says_what_runs_where(start: Start, tmp_path: Path) -> None:
    daemon = start("-A", "jobs:scheduler", "-l", "info")
    daemon.read_until("beat: Starting...")
    daemon.end(signal.SIGTERM)

    for line in (
        "anarchon-beat v",
        ". app -> jobs:scheduler (Scheduler)",
        f". store -> sqlite:///{tmp_path}/store.db",
        ". namespace -> shop",
        ". jobs -> 2",
        f". instance -> {socket.gethostname()}-",
    ):
        assert line in daemon.output


def test_a_coroutine_in_the_middle_of_its_run_is_handed_over(start: Start, beat: Beat) -> None:
    daemon = start("-A", "jobs:scheduler")
    daemon.read_until("LONG BEGINS")

    code = daemon.end(signal.SIGTERM)

    assert code == 0
    assert states(beat, "scheduler", "long")[0] == "interrupted"


def test_a_thread_that_ignores_its_signal_is_released_and_left_behind(
    start: Start, beat: Beat, tmp_path: Path
) -> None:
    daemon = start("-A", "jobs:hasty", "--pidfile", "beat.pid")
    daemon.read_until("STUBBORN BEGINS")

    code = daemon.end(signal.SIGTERM)

    assert code == 0
    assert states(beat, "hasty", "stubborn") == ["interrupted"]
    assert not (tmp_path / "beat.pid").exists()


def test_a_thread_of_somebody_else_keeps_it_for_seconds_only(start: Start, tmp_path: Path) -> None:
    """As one that waits for a name server does, which asyncio and Python wait for at the end."""
    daemon = start("-A", "jobs:busy", "-l", "info", "--pidfile", "beat.pid")
    daemon.read_until("success job=ask")

    code = daemon.end(signal.SIGINT)

    assert code == 130
    assert "not written yet" in daemon.output
    assert not (tmp_path / "beat.pid").exists()
    assert list(tmp_path.glob("anarchon-beat-*/*")) == []


def test_a_second_signal_waits_for_nobody(start: Start, beat: Beat) -> None:
    daemon = start("-A", "jobs:patient", "-l", "info")
    daemon.read_until("STUBBORN BEGINS")
    daemon.send(signal.SIGINT)
    daemon.read_until("beat: Shutting down...")

    code = daemon.end(signal.SIGINT)

    assert code == 130
    assert states(beat, "patient", "stubborn") == ["interrupted"]


def test_sigterm_while_the_app_is_imported_ends_it(start: Start, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import threading\nprint('IMPORTING', flush=True)\n"
        "try:\n    threading.Event().wait()\nexcept Exception:\n    pass\n"
    )
    daemon = start("-A", "slow")
    daemon.read_until("IMPORTING")

    assert daemon.end(signal.SIGTERM) == 0


def test_a_mistake_ends_it_with_code_2(start: Start) -> None:
    daemon = start("-A", "jobs:nobody")

    assert daemon.end() == 2
    assert daemon.output == "anarchon-beat: -A jobs:nobody: module jobs has no 'nobody'\n"


def test_a_second_daemon_with_one_pidfile_ends_with_code_4(start: Start, tmp_path: Path) -> None:
    first = start("-A", "jobs:idle", "-l", "info", "--pidfile", "beat.pid")
    first.read_until("beat: Starting...")

    second = start("-A", "jobs:idle", "--pidfile", "beat.pid")

    assert second.end() == 4
    assert second.output.count("\n") == 1
    assert str(first.pid) in second.output
    assert (tmp_path / "beat.pid").exists()


def test_a_daemon_that_runs_is_healthy_and_ready(start: Start, beat: Beat) -> None:
    daemon = start("-A", "jobs:idle", "-l", "info", "--health-file", "alive")
    daemon.read_until("beat: Starting...")

    wait_for(lambda: beat("--health-file", "alive", "health", "--ready").code == 0)

    assert beat("-A", "jobs:idle", "health", "--health-file", "alive").code == 0


def test_a_daemon_leaves_its_health_where_a_probe_looks(start: Start, beat: Beat) -> None:
    daemon = start("-A", "jobs:idle", "-l", "info")
    daemon.read_until("beat: Starting...")

    wait_for(lambda: beat("health").code == 0)

    daemon.end(signal.SIGTERM)
    assert beat("health").code == 1


def test_a_store_that_is_away_is_waited_for(start: Start, beat: Beat, tmp_path: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"redis://me:hunter2@127.0.0.1:{nobody.getsockname()[1]}/0"
        daemon = start("-A", "proj", "--store", url, "--health-file", "alive")
        daemon.read_until("store away")

        wait_for(lambda: beat("--health-file", "alive", "health").code == 0)

        assert beat("--health-file", "alive", "health", "--ready").code == 1
        assert daemon.end(signal.SIGTERM) == 0
    assert "hunter2" not in daemon.output


def test_a_health_file_that_cannot_be_written_hurts_nobody(start: Start, tmp_path: Path) -> None:
    daemon = start("-A", "jobs:idle", "-l", "info", "--health-file", "no/folder/alive")

    daemon.read_until("no health file")

    assert daemon.end(signal.SIGTERM) == 0


def test_a_logfile_takes_the_log(start: Start, tmp_path: Path) -> None:
    daemon = start("-A", "jobs:scheduler", "-l", "info", "-f", "beat.log")
    daemon.read_until("LONG BEGINS")
    daemon.end(signal.SIGTERM)

    log = (tmp_path / "beat.log").read_text()
    assert ": INFO/MainProcess] beat: Starting..." in log
    assert "start job=long" in log
    assert "beat: Starting..." not in daemon.output


def test_a_log_in_json_is_one_object_a_line(start: Start, tmp_path: Path) -> None:
    daemon = start("-A", "proj", "-l", "info", "--log-json")
    daemon.read_until("published job=add")
    daemon.end(signal.SIGTERM)

    lines = [json.loads(line) for line in daemon.output.splitlines()]
    assert "namespace: shop" in lines[0]["message"]
    assert "beat: Starting..." in [line["message"] for line in lines]
    assert all({"time", "level", "logger", "message"} <= set(line) for line in lines)
    published = next(line for line in lines if line.get("event") == "published")
    assert {"job", "slot", "attempt", "instance", "detail"} <= set(published)


def test_what_only_a_beat_with_a_file_could_use_is_taken_and_said_once(start: Start) -> None:
    daemon = start("-A", "proj", "-s", "/var/run/beat", "--max-interval", "5", "-l", "info")
    daemon.read_until("published job=add")

    assert daemon.end(signal.SIGTERM) == 0
    assert daemon.output.count("--schedule has no use here: there is no schedule file") == 1
    assert daemon.output.count("--max-interval has no use here: the loop wakes") == 1


def test_the_handlers_of_beat_init_are_called_once_before_the_first_claim(
    start: Start, tmp_path: Path
) -> None:
    (tmp_path / "proj.py").write_text(PROJECT + BEAT_INIT)

    daemon = start("-A", "proj", "-l", "info")
    daemon.read_until("published job=more")
    daemon.end(signal.SIGTERM)

    assert daemon.output.count("beat_init of") == 1
    first = daemon.output.index("beat_init of Service celerybeat-schedule: add shop.add 300")
    assert first < daemon.output.index("start job=")
    assert "Signal handler" in daemon.output
    assert "its own fault" in daemon.output


def test_a_command_that_only_looks_calls_no_handler_of_beat_init(
    beat: Beat, tmp_path: Path
) -> None:
    (tmp_path / "proj.py").write_text(PROJECT + BEAT_INIT)

    assert "beat_init" not in beat("-A", "proj", "next").out


def test_the_namespace_of_a_celery_app_may_be_given(start: Start, beat: Beat) -> None:
    daemon = start("-A", "proj", "--namespace", "shop-staging", "-l", "info")
    daemon.read_until("published job=add")
    daemon.end(signal.SIGTERM)

    assert ". namespace -> shop-staging" in daemon.output
    given = beat("-A", "proj", "--namespace", "shop-staging", "history", "--json")
    assert json.loads(given.out)["attempts"]
    assert json.loads(beat("-A", "proj", "history", "--json").out)["attempts"] == []


def test_a_celery_schedule_is_published_in_the_words_of_beat(start: Start) -> None:
    daemon = start("-A", "proj", "-l", "debug")

    daemon.read_until("Scheduler: Sending due task add (shop.add)")
    daemon.read_until("shop.add sent. id->")

    assert daemon.end(signal.SIGTERM) == 0
    assert ". app -> proj (Celery)" in daemon.output


def test_the_files_of_beat_settings_are_used(start: Start, tmp_path: Path) -> None:
    with (tmp_path / "proj.py").open("a") as project:
        project.write("app.conf.beat_logfile = 'beat.log'\napp.conf.beat_pidfile = 'beat.pid'\n")
    daemon = start("-A", "proj", "-l", "info")
    daemon.read_until("instance ->")

    assert (tmp_path / "beat.pid").exists()
    daemon.end(signal.SIGTERM)

    assert "beat: Shutting down..." in (tmp_path / "beat.log").read_text()


def test_a_project_that_sets_up_its_own_log_keeps_it(start: Start, tmp_path: Path) -> None:
    with (tmp_path / "proj.py").open("a") as project:
        project.write(
            "import logging\n@signals.setup_logging.connect\ndef own(**kwargs):\n"
            "    logging.basicConfig(level=20, format='OWN %(message)s')\n"
        )
    daemon = start("-A", "proj")

    daemon.read_until("OWN beat: Starting...")

    assert daemon.end(signal.SIGTERM) == 0


def wait_for(condition: Callable[[], bool]) -> None:
    """Return once a condition holds that another process brings about."""
    while not condition():
        threading.Event().wait(0.05)
