"""Command lines, given to the command in this process or in one of its own."""

import itertools
import logging
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from anarchon import Scheduler
from anarchon_beat import cli
from tests.beat.canned import CannedBackend
from tests.programs import Program

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


class Process(Program):
    """The command in a process of its own."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        super().__init__(folder, "anarchon_beat", *arguments)


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
