"""Standard streams that are closed, full, unread, or know few letters."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.beat.conftest import Told
from tests.programs import ROOT

JOBS = """
import sys, threading
from anarchon import Scheduler

idle = Scheduler("sqlite:///store.db", namespace="shop")
idle.every("na\\u00efve \\u2603", "1d", print)

talking = Scheduler("sqlite:///store.db", namespace="shop", grace="0s", lease="60s")

@talking.every("talk", "1s")
def talk(ctx):
    print("TALKS", file=sys.stderr, flush=True)
    print("TALK")
    threading.Event().wait()
"""

Started = subprocess.Popen[bytes]
Start = Callable[..., Started]
Run = Callable[..., Told]

needs_a_full_device = pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="no device here is always full"
)


@pytest.fixture(params=["", "1"], ids=["buffered", "unbuffered"])
def start(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Start]:
    """Start the command with redirections as a shell writes them, or with an unread output."""
    (tmp_path / "jobs.py").write_text(JOBS)
    started: list[Started] = []

    def begin(
        arguments: str, redirection: str = "", *, unread: bool = False, **more: str
    ) -> Started:
        reading, writing = os.pipe()
        os.close(reading)
        process = subprocess.Popen(
            ["sh", "-c", f"exec {sys.executable} -m anarchon_beat {arguments} {redirection}"],
            cwd=tmp_path,
            env={
                **os.environ,
                "TMPDIR": str(tmp_path),
                "PYTHONPATH": str(ROOT),
                "PYTHONUNBUFFERED": request.param,
                **more,
            },
            stdout=writing if unread else subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        os.close(writing)
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


@pytest.fixture
def run(start: Start) -> Run:
    """Start it and wait until it has ended."""

    def told(*arguments: str, unread: bool = False, **more: str) -> Told:
        process = start(*arguments, unread=unread, **more)
        out, err = process.communicate()
        return Told(process.returncode, (out or b"").decode(), err.decode())

    return told


def read_until(process: Started, text: str) -> str:
    """Read what is said on standard error until this, and return it."""
    said = ""
    assert process.stderr is not None
    for line in process.stderr:
        said += line.decode()
        if text in said:
            return said
    raise AssertionError(f"{text!r} was never said:\n{said}")


@pytest.mark.parametrize("command", ["next", "next --json", "history", "--version", "next --help"])
def test_a_closed_output_is_written_to_without_a_word(run: Run, command: str) -> None:
    assert run(f"-A jobs:idle {command}", ">&-") == Told(0, "", "")


def test_a_mistake_is_one_although_nobody_can_be_told(run: Run) -> None:
    assert run("-A jobs:nobody next", ">&- 2>&- <&-") == Told(2, "", "")


def test_closed_streams_change_no_answer_to_a_probe(run: Run) -> None:
    assert run("health", ">&- 2>&- <&-") == Told(1, "", "")


@needs_a_full_device
@pytest.mark.parametrize("command", ["next", "next --json", "history", "--version", "next --help"])
def test_a_full_output_is_told_in_one_line(run: Run, command: str) -> None:
    told = run(f"-A jobs:idle {command}", ">/dev/full")

    assert told == Told(2, "", "anarchon-beat: standard output: No space left on device\n")


@needs_a_full_device
@pytest.mark.parametrize(("arguments", "code"), [("health", 1), ("health --help", 0)])
def test_a_full_output_changes_no_answer_to_a_probe(run: Run, arguments: str, code: int) -> None:
    assert run(arguments, ">/dev/full") == Told(code, "", "")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("health", 1),
        ("health --help", 0),
        ("--help", 0),
        ("-A jobs:idle next", 0),
        ("-A jobs:idle next --help", 0),
        ("-A jobs:idle history", 0),
    ],
)
def test_a_reader_who_left_is_no_mistake(run: Run, arguments: str, code: int) -> None:
    assert run(arguments, unread=True) == Told(code, "", "")


@pytest.mark.parametrize("command", ["next", "history", "next --json"])
def test_letters_that_the_output_has_not_are_escaped(run: Run, command: str) -> None:
    told = run(f"-A jobs:idle {command}", PYTHONIOENCODING="ascii")

    assert (told.code, told.err) == (0, "")
    assert ("na\\xefve \\u2603" in told.out) == (command == "next")


@pytest.mark.parametrize(
    "redirection", [">&-", pytest.param(">/dev/full", marks=needs_a_full_device)]
)
def test_a_daemon_runs_whatever_becomes_of_its_output(start: Start, redirection: str) -> None:
    daemon = start("-A jobs:idle -l info", redirection)
    said = read_until(daemon, "beat: Starting...")

    daemon.send_signal(signal.SIGTERM)

    said += read_until(daemon, "beat: Shutting down...")
    assert daemon.wait() == 0
    assert ("No space left on device" in said) == (redirection == ">/dev/full")
    assert "Traceback" not in said


def test_a_daemon_whose_reader_left_says_so_and_runs(start: Start) -> None:
    daemon = start("-A jobs:idle -l info", unread=True)
    said = read_until(daemon, "beat: Starting...")

    daemon.send_signal(signal.SIGTERM)

    assert daemon.wait() == 0
    assert "standard output: Broken pipe" in said


@pytest.mark.parametrize(
    "redirection", [">&-", pytest.param(">/dev/full", marks=needs_a_full_device)]
)
def test_a_process_that_leaves_a_thread_behind_goes_without_its_output(
    start: Start, redirection: str
) -> None:
    daemon = start("-A jobs:talking", redirection)
    read_until(daemon, "TALKS")

    daemon.send_signal(signal.SIGTERM)

    assert daemon.wait() == 0
