"""`history`: who ran what, for people, pipes and programs."""

import io
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from anarchon import Attempt, RunState, Scheduler
from tests.beat.canned import CannedBackend, attempt
from tests.beat.conftest import Beat
from tests.beat.test_next import Stopped
from tests.programs import ROOT


@pytest.fixture
def name(
    canned: CannedBackend,
    declared: Callable[[Scheduler], str],
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    """How `-A` names a scheduler with two jobs on the canned store."""
    monkeypatch.setattr("anarchon_beat.history.SystemClock", Stopped)
    scheduler = Scheduler(canned, namespace="shop")
    scheduler.every("sync", "10s", print)
    scheduler.every("digest", "10s", print)
    return declared(scheduler)


def test_an_attempt_is_a_row(beat: Beat, name: str, canned: CannedBackend) -> None:
    canned.attempts = [attempt()]

    told = beat("-A", name, "history")

    assert (told.code, told.err) == (0, "")
    assert [re.split(r"\s{2,}", line) for line in told.out.splitlines()] == [
        ["SLOT", "AGO", "JOB", "ATTEMPT", "STATE", "INSTANCE", "STARTED", "TOOK", "DETAIL"],
        [
            "Sun 2026-11-29 11:58:30 UTC",
            "1min 30s ago",
            "sync",
            "1",
            "success",
            "web-1",
            "+200ms",
            "1.5s",
            "'done'",
        ],
    ]


def test_an_attempt_that_goes_on_has_no_end(beat: Beat, name: str, canned: CannedBackend) -> None:
    canned.attempts = [replace(attempt(detail=None), state=RunState.RUNNING, ended=None)]

    told = beat("-A", name, "history")

    row = told.out.splitlines()[1]
    assert re.split(r"\s{2,}", row)[4:] == ["running", "web-1", "+200ms", "-"]


def test_a_skipped_slot_has_no_attempt(beat: Beat, name: str, canned: CannedBackend) -> None:
    canned.attempts = [replace(attempt(), state=RunState.SKIPPED, attempt=0)]

    told = beat("-A", name, "history")

    assert re.split(r"\s{2,}", told.out.splitlines()[1])[3:5] == ["-", "skipped"]


def test_no_history_is_no_mistake(beat: Beat, name: str) -> None:
    told = beat("-A", name, "history")

    assert (told.code, told.out) == (0, "nothing has run yet\n")


def test_one_job_may_be_asked_for(beat: Beat, name: str, canned: CannedBackend) -> None:
    canned.attempts = [attempt("sync"), attempt("digest")]

    told = beat("-A", name, "history", "--job", "digest")

    assert "digest" in told.out
    assert "sync" not in told.out


def test_a_job_that_is_declared_no_more_keeps_its_history(
    beat: Beat, name: str, canned: CannedBackend
) -> None:
    canned.attempts = [attempt("retired")]

    told = beat("-A", name, "history", "--job", "retired")

    assert told.code == 0
    assert "retired" in told.out


def test_the_limit_is_kept(beat: Beat, name: str, canned: CannedBackend) -> None:
    canned.attempts = [attempt(ago=10.0 * n) for n in range(1, 10)]

    told = beat("-A", name, "history", "--limit", "3")

    assert told.out.count("success") == 3


def test_the_json_says_its_version(beat: Beat, name: str, canned: CannedBackend) -> None:
    canned.attempts = [attempt()]

    told = beat("-A", name, "history", "--json")

    assert json.loads(told.out) == {
        "version": "anarchon.history/1",
        "namespace": "shop",
        "store": "canned://",
        "attempts": [
            {
                "job": "sync",
                "slot": "2026-11-29T11:58:30.000Z",
                "attempt": 1,
                "state": "success",
                "instance": "web-1",
                "fence": 7,
                "started": "2026-11-29T11:58:30.200Z",
                "ended": "2026-11-29T11:58:31.700Z",
                "detail": "'done'",
                "worker": None,
                "message": None,
                "begun": None,
            }
        ],
    }


def tracked(detail: str | None = None) -> Attempt:
    """Return an attempt that waited for a minute before a worker began it."""
    sent = attempt(ago=300, detail=detail)
    begun = sent.slot + timedelta(minutes=1)
    return replace(
        sent, begun=begun, ended=begun + timedelta(seconds=2), worker="pod-7", message="4f1c"
    )


def test_what_a_worker_began_tells_which_and_how_long_the_work_took(
    beat: Beat, name: str, canned: CannedBackend
) -> None:
    canned.attempts = [tracked(), attempt(ago=400)]

    told = beat("-A", name, "history")

    head, first, second = (re.split(r"\s{2,}", line)[6:] for line in told.out.splitlines())
    assert head == ["STARTED", "BEGUN", "WORKER", "TOOK", "DETAIL"]
    assert first == ["+200ms", "+1min", "pod-7", "2s", "4f1c"]
    assert second == ["+200ms", "-", "-", "1.5s", "'done'"]


def test_what_the_work_came_to_is_told_rather_than_its_message(
    beat: Beat, name: str, canned: CannedBackend
) -> None:
    canned.attempts = [tracked("ValueError('no')")]

    told = beat("-A", name, "history")

    assert told.out.splitlines()[1].endswith("  ValueError('no')")


def test_the_json_of_a_tracked_run_tells_all_of_it(
    beat: Beat, name: str, canned: CannedBackend
) -> None:
    canned.attempts = [tracked()]

    [told] = json.loads(beat("-A", name, "history", "--json").out)["attempts"]

    assert (told["worker"], told["message"]) == ("pod-7", "4f1c")
    assert told["begun"] == "2026-11-29T11:56:00.000Z"


def test_a_pipe_gets_whole_columns_however_narrow_the_screen(
    beat: Beat, name: str, canned: CannedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    detail = "x" * 500
    canned.attempts = [attempt(detail=detail)]

    told = beat("-A", name, "history")

    assert told.out.splitlines()[1].endswith(f"  {detail}")
    assert "\x1b" not in told.out


def test_a_detail_cannot_move_the_cursor_or_break_the_row(
    beat: Beat, name: str, canned: CannedBackend
) -> None:
    canned.attempts = [attempt(detail="first\nsecond \x1b[2J [red]third[/red]")]

    told = beat("-A", name, "history")

    assert told.out.splitlines()[1].endswith("first second \ufffd[2J [red]third[/red]")


class Terminal(io.StringIO):
    """Standard output as a person has it."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "200")
    with Terminal() as terminal:
        yield terminal


def test_a_terminal_gets_colour(
    beat: Beat,
    name: str,
    canned: CannedBackend,
    terminal: Terminal,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    canned.attempts = [attempt()]
    monkeypatch.setattr(sys, "stdout", terminal)

    beat("-A", name, "history")

    assert "\x1b[32msuccess\x1b[0m" in terminal.getvalue()


def test_nobody_gets_colour_who_wants_none(
    beat: Beat,
    name: str,
    canned: CannedBackend,
    terminal: Terminal,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    canned.attempts = [attempt()]
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "stdout", terminal)

    beat("-A", name, "history")

    assert "success" in terminal.getvalue()
    assert "\x1b" not in terminal.getvalue()


def test_a_reader_that_has_seen_enough_is_no_mistake(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text(
        "from anarchon import Scheduler\nfrom tests.beat.canned import CannedBackend, attempt\n"
        "backend = CannedBackend()\nbackend.attempts = [attempt(detail='x' * 900)] * 900\n"
        "mine = Scheduler(backend)\nmine.every('sync', '10s', print)\n"
    )
    command = f"{sys.executable} -m anarchon_beat -A jobs:mine history --limit 900; echo $? >&2"

    done = subprocess.run(
        ["bash", "-c", f"({command}) | head -1"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )

    assert done.stdout.startswith("SLOT")
    assert done.stderr == "0\n"
