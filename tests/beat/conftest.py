"""Command lines, given to the command in this process or in one of its own."""

import itertools
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from anarchon import Scheduler
from anarchon_beat import cli
from tests.beat.canned import CannedBackend

ROOT = Path(__file__).resolve().parent.parent.parent
_NUMBERS = itertools.count()


@dataclass(frozen=True)
class Told:
    """What a command said, and its exit code."""

    code: int
    out: str
    err: str


Beat = Callable[..., Told]


@pytest.fixture
def beat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Beat]:
    """Give arguments to the command in this process, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    modules = set(sys.modules)
    store_log = logging.getLogger("anarchon.store")

    def tell(*arguments: str) -> Told:
        capsys.readouterr()
        code = cli.run(arguments)
        said = capsys.readouterr()
        return Told(code, said.out, said.err)

    yield tell
    # the modules of this folder must not be found by the next test
    for name in set(sys.modules) - modules:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]
    store_log.propagate = True
    store_log.handlers.clear()


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch) -> Callable[[Scheduler], str]:
    """Return how `-A` names a scheduler that a test has made."""

    def name_of(scheduler: Scheduler) -> str:
        module = ModuleType(f"made_by_a_test_{next(_NUMBERS)}")
        module.__dict__["scheduler"] = scheduler
        monkeypatch.setitem(sys.modules, module.__name__, module)
        return f"{module.__name__}:scheduler"

    return name_of


@pytest.fixture
def canned() -> CannedBackend:
    """A store with the history that a test puts there."""
    return CannedBackend()


class Process:
    """The command in a process of its own; what it writes is read line by line."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        environment = {**os.environ, "TMPDIR": str(folder), "PYTHONPATH": str(ROOT)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "anarchon_beat", *arguments],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.pid = self._process.pid
        self.output = ""

    def read_until(self, text: str) -> None:
        """Read lines until one of them holds this text."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.output += line
            if text in line:
                return
        raise AssertionError(f"{text!r} was never said:\n{self.output}")

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def end(self, number: signal.Signals | None = None) -> int:
        """Send a signal, if there is one, read the rest, and return the exit code."""
        if number is not None:
            self.send(number)
        rest, _ = self._process.communicate()
        self.output += rest
        return self._process.returncode

    def kill(self) -> None:
        """Leave nothing behind."""
        assert self._process.stdout is not None
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """Start the command in a process of its own, in the folder of the test."""
    started: list[Process] = []

    def begin(*arguments: str) -> Process:
        process = Process(tmp_path, *arguments)
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
