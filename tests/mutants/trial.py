"""Copies of the project in folders of their own, and what their tests say."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from tests.mutants.mutant import Mutant

PROJECT = Path(__file__).resolve().parents[2]
#: The packages, their tests, and what these look into.
_COPIED = (
    *("anarchon", "anarchon_beat", "anarchon_contract", "integrations", "tests"),
    "pyproject.toml",
)
#: Longer than any of the selections takes; each test has a time limit of its own.
_LONGEST = 900.0
#: Tests that may fail by chance before the machine is said to be too busy.
_CHANCES = 3
_FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", re.MULTILINE)
_PASSED = re.compile(r"\b(\d+) passed\b")
_OPTIONS = (
    *("-x", "-q", "--tb=line", "-rfE", "-p", "no:randomly", "-p", "no:cacheprovider"),
    # imports hypothesis at the very end where no test did, which fails now and then on
    # Python 3.11: "AST constructor recursion depth mismatch"
    *("-p", "no:hypothesispytest"),
)


class Unusable(Exception):
    """The tests did not say anything: they could not be run."""


@dataclass(frozen=True)
class Verdict:
    """What a selection of tests said; ``failed`` is the first that did not pass."""

    failed: str | None
    passed: int
    seconds: float
    output: str


class Project:
    """The project as it was at one moment: its files may be edited meanwhile."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @classmethod
    @contextmanager
    def as_it_is(cls) -> Iterator[Self]:
        """Copy what the tests need; the servers that were fetched are shared."""
        with _temporary_folder() as folder:
            for name in _COPIED:
                source = PROJECT / name
                if source.is_dir():
                    # no compiled files: they are told apart by the second their source is of
                    without = shutil.ignore_patterns("__pycache__")
                    shutil.copytree(source, folder / name, ignore=without)
                else:
                    shutil.copy2(source, folder / name)
            servers = PROJECT / ".servers"
            servers.mkdir(mode=0o755, exist_ok=True)
            (folder / ".servers").symlink_to(servers)
            _check_that_the_copy_is_imported(folder)
            yield cls(folder)

    def test(self, tests: tuple[str, ...]) -> Verdict:
        """Run tests with nothing taken out.

        Raises: `Unusable`.
        """
        with self._copied() as copy:
            return _tested(copy, tests)

    def test_without(self, mutant: Mutant) -> Verdict:
        """Run a mutant's tests; the one that fails must fail again when it is run alone.

        One that does not failed by chance, on a machine that was busy, and kept those after it
        from being run: they are asked without it.

        Raises: `Unusable`, `NotApplicable`.
        """
        seconds = 0.0
        by_chance: list[str] = []
        with self._copied() as copy:
            mutant.infect(copy)
            while len(by_chance) <= _CHANCES:
                left_out = (f"--deselect={test}" for test in by_chance)
                verdict = _tested(copy, (*mutant.tests, *left_out))
                seconds += verdict.seconds
                if verdict.failed is None:
                    return replace(verdict, seconds=seconds)
                again = _tested(copy, (verdict.failed,))
                seconds += again.seconds
                if again.failed is not None:
                    return replace(verdict, failed=again.failed, seconds=seconds)
                by_chance.append(verdict.failed)
        raise Unusable(f"failed, but not alone: {', '.join(by_chance)}")

    @contextmanager
    def _copied(self) -> Iterator[Path]:
        with _temporary_folder() as folder:
            copy = folder / "project"
            shutil.copytree(self._folder, copy, symlinks=True)
            yield copy


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="anarchon-mutant-") as name:
        folder = Path(name)
        # some servers run as another user
        folder.chmod(0o755)
        yield folder


def _tested(copy: Path, tests: tuple[str, ...]) -> Verdict:
    began = time.perf_counter()
    output, code = _python(copy, "-m", "pytest", *_OPTIONS, *tests)
    seconds = time.perf_counter() - began
    failed = _FAILED.search(output)
    passed = _PASSED.search(output)
    # 0: all passed; 1: some failed. A file that cannot be imported is no test that failed.
    if code not in (0, 1) or (code == 1 and failed is None):
        raise Unusable(f"pytest ended with {code}:\n{output[-2000:]}")
    return Verdict(
        failed.group(1) if failed else None, int(passed[1]) if passed else 0, seconds, output
    )


def _check_that_the_copy_is_imported(copy: Path) -> None:
    names = (
        *("anarchon", "anarchon_beat", "anarchon_contract", "anarchon_celery"),
        *("anarchon_dramatiq", "tests.mutants"),
    )
    script = f"import {', '.join(names)}; print(*({', '.join(f'{n}.__file__' for n in names)},))"
    output, _ = _python(copy, "-B", "-c", script)
    strangers = [file for file in output.split() if not Path(file).is_relative_to(copy)]
    if strangers:
        raise Unusable(f"not the copy was imported but {output}")


def _python(copy: Path, *arguments: str) -> tuple[str, int]:
    # before what an editable install adds
    ours = os.pathsep.join((str(copy), str(copy / "integrations")))
    try:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": ours},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_LONGEST,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise Unusable(f"no end after {_LONGEST:.0f} s: {' '.join(arguments)}") from late
    return done.stdout, done.returncode
