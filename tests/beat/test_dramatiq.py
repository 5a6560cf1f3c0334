"""`anarchon-beat --dramatiq`: the schedules of a broker in a process of their own."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import dramatiq
import pytest

from anarchon_beat.mistakes import STORE_UNREACHABLE
from tests.beat.conftest import Beat, Process
from tests.beat.test_mistakes import assert_told_in_one_line
from tests.servers import ServersForTests
from tests.servers.redis import RedisServer

PROJECT = """
import dramatiq
from dramatiq.brokers.stub import StubBroker
from anarchon_dramatiq import AnarchonMiddleware, cron, every

broker = StubBroker()

def setup():
    broker.add_middleware(AnarchonMiddleware("sqlite:///store.db"))
    dramatiq.set_broker(broker)

setup()
"""
ACTORS = """
import dramatiq
import proj
from anarchon_dramatiq import cron, every

@dramatiq.actor(periodic=[every("1s"), cron("0 8 * * 1-5", name="digest")])
def tell():
    pass
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "proj.py").write_text(PROJECT)
    (tmp_path / "tasks.py").write_text(ACTORS)
    yield tmp_path
    # typed as if there always were one
    dramatiq.set_broker(None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "named",
    [("tasks",), ("proj:broker", "tasks"), ("proj", "tasks"), ("tasks:proj.broker",)],
    ids=" ".join,
)
def test_a_broker_is_found_as_dramatiq_finds_it(beat: Beat, named: tuple[str, ...]) -> None:
    told = beat(*(word for name in named for word in ("--dramatiq", name)), "next", "-n", "2")

    assert (told.code, told.err) == (0, "")
    assert told.out.count("every 1s") == 2


def test_a_function_may_set_the_broker_up(beat: Beat, project: Path) -> None:
    (project / "proj.py").write_text(PROJECT.replace("\nsetup()\n", "\n"))
    (project / "tasks.py").write_text(ACTORS.replace("import proj", "from proj import setup"))
    (project / "all.py").write_text("def setup():\n    import proj; proj.setup(); import tasks\n")

    told = beat("--dramatiq", "all:setup", "next", "--job", "digest")

    assert "cron 0 8 * * 1-5" in told.out


def test_it_is_checked_without_a_start(beat: Beat) -> None:
    told = beat("--dramatiq", "tasks", "check", "--offline")

    assert (told.code, told.err) == (0, "")
    assert "2 jobs" in told.out


def on_redis(project: Path, url: str) -> None:
    """Let the project's broker be a Redis."""
    made = PROJECT.replace("dramatiq.brokers.stub", "dramatiq.brokers.redis")
    made = made.replace("StubBroker()", f'RedisBroker(url={url!r}, namespace="{project.name}")')
    (project / "proj.py").write_text(made.replace("StubBroker", "RedisBroker"))


@pytest.mark.xdist_group("dramatiq-brokers")
def test_a_check_warns_where_no_worker_was_heard_of(
    beat: Beat, project: Path, servers: ServersForTests
) -> None:
    server = servers.get("redis-8.0")
    assert isinstance(server, RedisServer)
    on_redis(project, server.url(database=11))

    told = beat("--dramatiq", "tasks", "check")

    assert told.code == 1
    assert (
        "warning: jobs 'tell', 'digest': broker: no worker was heard of for 60 s; start one"
        in told.out
    )


def test_a_check_tells_of_a_broker_that_is_away(beat: Beat, project: Path) -> None:
    on_redis(project, "redis://127.0.0.1:1/0")

    told = beat("--dramatiq", "tasks", "check")

    assert told.code == STORE_UNREACHABLE
    assert "error: broker: the broker redis://127.0.0.1:1/0" in told.out
    assert "Traceback" not in told.out + told.err


@pytest.mark.cluster
def test_it_runs_the_schedule_until_it_is_told_to_stop(start: Callable[..., Process]) -> None:
    process = start("--dramatiq", "tasks", "-l", "info")
    process.read_until("start job=tell")
    process.read_until("published job=tell")

    assert process.end(signal.SIGTERM) == 0
    assert "tasks (Dramatiq)" in process.output
    history = start("--dramatiq", "tasks", "history", "--job", "tell")
    assert history.end() == 0
    assert "published" in history.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--dramatiq", "nowhere", "next"], "there is no module 'nowhere'"),
        (["--dramatiq", "my-proj", "next"], "'my-proj' is not the name of a module"),
        (["--dramatiq", "proj:nothing", "next"], "module proj has no 'nothing'"),
        (["--dramatiq", "proj:__name__", "next"], "is of the type str, and neither a Broker"),
        (["--dramatiq", "tasks", "-A", "proj", "next"], "name two schedules: type one of them"),
        (["--dramatiq", "tasks", "--disable", "tell", "next"], "leave 'tell' out where tasks"),
        (["--dramatiq", "tasks", "--store", "nosql://x", "next"], "no backend answers to nosql://"),
        (["--dramatiq", "broken", "next"], "job 'tell': periodic: 'daily' is no schedule"),
        (["--dramatiq", "plain", "next"], "StubBroker has no AnarchonMiddleware"),
    ],
)
def test_a_mistake_is_told_in_one_line(
    beat: Beat, project: Path, arguments: list[str], said: str
) -> None:
    (project / "broken.py").write_text(ACTORS.replace("[every", "'daily' or [every"))
    (project / "plain.py").write_text(
        "import dramatiq\nfrom dramatiq.brokers.stub import StubBroker\n"
        "dramatiq.set_broker(StubBroker())\n"
    )

    assert_told_in_one_line(beat(*arguments), said)
