"""`docs/how-to/replace-celery-beat.md`, walked by whoever reads it: each of its commands is run."""

import ast
import re
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from celery import Celery
from redis import Redis

from anarchon import Scheduler
from anarchon.backends.memory import MemoryBackend
from anarchon_celery import scheduler_for
from tests.documents import Block, marked, names_in, rows_of
from tests.programs import Program
from tests.servers import ServersForTests
from tests.servers.redis import RedisServer

pytestmark = pytest.mark.cluster

PROJECT = """
from celery import Celery
from celery.schedules import crontab

app = Celery("shop", broker={broker!r})
app.conf.result_expires = None
app.conf.beat_schedule = {{
    "rates": {{
        "task": {task!r},
        "schedule": {interval},
        "options": {{"anarchon": {{"jitter": "100ms"}}}},
    }},
    "close": {{"task": "shop.rates", "schedule": crontab(hour=18, minute=0)}},
}}

@app.task(name="shop.rates")
def rates():
    pass
"""
MODULES = {"anarchon-beat": "anarchon_beat", "celery": "celery"}

Start = Callable[..., Program]


@pytest.fixture
def broker(servers: ServersForTests) -> str:
    server = servers.get("redis-8.0")
    assert isinstance(server, RedisServer)
    with Redis.from_url(server.url(database=14)) as client:
        client.flushdb()
    return server.url(database=14)


@pytest.fixture
def start(tmp_path: Path, broker: str) -> Iterator[Start]:
    """Write a project, and start what a command line of the page says in its folder."""
    write(tmp_path, broker)
    started: list[Program] = []

    def begin(line: str) -> Program:
        name, *arguments = shlex.split(line)
        started.append(Program(tmp_path, MODULES[name], *arguments))
        return started[-1]

    yield begin
    for program in started:
        program.kill()


def write(
    folder: Path, broker: str, *, task: str = "shop.rates", interval: float = 1.0, more: str = ""
) -> None:
    text = PROJECT.format(broker=broker, task=task, interval=interval)
    (folder / "proj.py").write_text(text + more)


def walk(about: str) -> list[Block]:
    blocks = marked("walk", about)
    assert blocks, f"the page has no walk {about!r}"
    return blocks


def lines_of(about: str) -> list[str]:
    text = "\n".join(block.text for block in walk(about) if block.language == "console")
    return re.findall(r"^\$ (?!pip )(.+)$", text, re.MULTILINE)


def test_every_walk_of_the_page_is_walked_here() -> None:
    walked = set(re.findall(r'(?:lines_of|walk)\("([^"]+)"\)', Path(__file__).read_text()))

    assert {block.about for block in marked("walk")} == walked


@pytest.mark.parametrize("line", lines_of("check"))
def test_whoever_asks_hears_that_nothing_is_wrong(start: Start, line: str) -> None:
    program = start(line)

    assert program.end() == 0, program.output


def test_a_check_says_what_the_page_says(start: Start, tmp_path: Path, broker: str) -> None:
    (told,) = marked("told", "check")
    write(tmp_path, broker, task="shop.rate", interval=10.0)

    program = start("anarchon-beat -A proj check")

    assert program.end() == 1
    said = re.sub(r"redis://127[\d.]+:\d+/\d+", "redis://localhost:6379/0", program.output)
    assert said.strip() == told.text.strip()


@pytest.mark.parametrize("line", lines_of("a program of its own"))
def test_the_schedule_is_run_by_a_program_of_its_own(start: Start, line: str) -> None:
    program = start(line)

    program.read_until("published job=rates")

    assert program.end(signal.SIGTERM) == 0


@pytest.mark.parametrize("line", lines_of("Celery's own command"))
def test_the_schedule_is_run_by_celerys_own_command(start: Start, line: str) -> None:
    program = start(line)

    program.read_until("published job=rates")

    assert program.end(signal.SIGTERM) == 0


def test_the_schedule_is_run_by_every_worker(start: Start, tmp_path: Path, broker: str) -> None:
    snippets = [block.text for block in walk("in every worker") if block.language == "python"]
    write(tmp_path, broker, more="\n".join(snippets))
    (line,) = lines_of("in every worker")
    program = start(line)

    program.read_until("Task shop.rates")

    assert program.end(signal.SIGTERM) == 0


def test_celery_beat_takes_the_project_back(start: Start, tmp_path: Path) -> None:
    forwards = start("anarchon-beat -A proj -l info")
    forwards.read_until("published job=rates")
    forwards.end(signal.SIGTERM)
    (tmp_path / "celerybeat-schedule").write_text("of long ago")
    remove, back = lines_of("back")

    subprocess.run(["sh", "-c", remove], cwd=tmp_path, check=True)  # for its pattern
    assert not (tmp_path / "celerybeat-schedule").exists()
    program = start(back)

    program.read_until("Scheduler: Sending due task rates (shop.rates)")
    assert program.end(signal.SIGTERM) == 0
    assert "Error" not in program.output


def situations() -> list[tuple[str, dict[str, object]]]:
    (block,) = marked("table", "situations")
    return [(row[0], ast.literal_eval(names_in(row[1])[0])) for row in rows_of(block)]


@pytest.mark.parametrize(("situation", "options"), situations())
def test_the_options_for_a_situation_are_accepted(
    situation: str, options: dict[str, object]
) -> None:
    app = Celery("shop", broker="memory://", set_as_current=False)
    app.conf.result_expires = None
    app.conf.beat_schedule = {
        "x": {"task": "shop.x", "schedule": 86400, "options": {"anarchon": options}}
    }

    scheduler = scheduler_for(app, store=MemoryBackend())

    assert isinstance(scheduler, Scheduler)
    assert [job.name for job in scheduler.jobs] == (["x"] if options.get("enabled", True) else [])
