"""`celery -A proj anarchon ...`, which is the command under another name."""

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.programs import Program

PROJECT = """
from celery import Celery
app = Celery("shop", broker="memory://")
app.conf.anarchon_store = "sqlite:///store.db"
app.conf.beat_schedule = {"add": {"task": "shop.add", "schedule": 1.0}}
"""

Celery = Callable[..., Program]


@pytest.fixture
def celery(tmp_path: Path) -> Iterator[Celery]:
    (tmp_path / "proj.py").write_text(PROJECT)
    started: list[Program] = []

    def begin(*arguments: str, **environment: str) -> Program:
        started.append(Program(tmp_path, "celery", *arguments, **environment))
        return started[-1]

    yield begin
    for program in started:
        program.kill()


def test_it_runs_the_schedule_and_says_what_ran(celery: Celery) -> None:
    daemon = celery("-A", "proj", "anarchon", "-l", "info")
    daemon.read_until("published job=add")
    assert daemon.end(signal.SIGTERM) == 0

    history = celery("-A", "proj", "anarchon", "history", "--json")

    assert history.end() == 0
    (attempt, *_) = json.loads(history.output)["attempts"]
    assert (attempt["job"], attempt["state"]) == ("add", "published")


def test_it_shows_what_comes(celery: Celery) -> None:
    coming = celery("-A", "proj", "anarchon", "--namespace", "x", "next", "-n", "2", "--json")

    assert coming.end() == 0
    assert json.loads(coming.output)["namespace"] == "x"
    assert [slot["job"] for slot in json.loads(coming.output)["slots"]] == ["add", "add"]


def test_the_app_may_be_named_by_the_environment(celery: Celery) -> None:
    assert celery("anarchon", "next", CELERY_APP="proj").end() == 0


def test_health_is_asked_of_the_same_app(celery: Celery) -> None:
    daemon = celery("-A", "proj", "anarchon", "-l", "info")
    daemon.read_until("published job=add")

    # it says so within a second
    while celery("-A", "proj", "anarchon", "health", "--ready").end() != 0:
        pass
    daemon.end(signal.SIGTERM)
    assert celery("-A", "proj", "anarchon", "health").end() == 1


def test_an_app_after_the_command_is_answered_with_its_place(celery: Celery) -> None:
    told = celery("anarchon", "-A", "proj", "next")

    assert told.end() == 2
    assert "-A stands before the command: celery -A APP anarchon" in told.output


def test_a_mistake_is_told_in_one_line_by_the_name_that_was_typed(celery: Celery) -> None:
    told = celery("-A", "proj", "anarchon", "history", "--job", "ad")

    assert told.end() == 2
    assert told.output.startswith("celery anarchon: ")
    assert told.output.count("\n") == 1


def test_its_help_is_that_of_the_command(celery: Celery) -> None:
    told = celery("-A", "proj", "anarchon", "--help")

    assert told.end() == 0
    assert told.output.startswith("Usage: celery anarchon [OPTIONS] [COMMAND]")
