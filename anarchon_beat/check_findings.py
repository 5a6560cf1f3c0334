"""What a check finds: each thing once, with what to write instead, and the exit code of it all."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

from anarchon import AnarchonError, ConfigurationError, StoreError
from anarchon_beat.mistakes import FOUND_SOMETHING, USAGE, Mistake, code_of, one_line, told
from anarchon_beat.origin import STORE, place_of_store

T = TypeVar("T")

#: Ours, and that by which Celery tells what a handler of its signals raised.
_HEARD = ("anarchon", "anarchon.celery", "celery.utils.dispatch.signal")

#: As many names of jobs as a line can hold and still be read.
_NAMED = 5


class Level(StrEnum):
    """How bad it is."""

    ERROR = "error"
    """It would not start, or would not work."""
    WARNING = "warning"
    """It would start; whether it then does what is meant is in doubt."""
    NOTE = "note"
    """Nothing is wrong; it is good to know."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found; ``code`` is the exit code that it stands for."""

    level: Level
    problem: str
    jobs: tuple[str, ...] = ()
    option: str | None = None
    fix: str | None = None
    code: int = 0
    store: str | None = None
    set_by: str | None = None
    """What names the store, where the option is the store, and ``store`` is what it shows."""

    def __str__(self) -> str:
        named = ", ".join(map(repr, self.jobs[:_NAMED]))
        if len(self.jobs) > _NAMED:
            named += f" and {len(self.jobs) - _NAMED} more"
        place = f"job{'s' if len(self.jobs) > 1 else ''} {named}: " if self.jobs else ""
        option = ""
        if self.option == STORE:
            option = f"{place_of_store(self.store, self.set_by)}: "
        elif self.option is not None:
            option = f"{self.option}: "
        fix = f"; {self.fix}" if self.fix is not None else ""
        return f"{self.level}: {place}{option}{self.problem}{fix}"


class Findings:
    """Gathers what is found; several jobs with the same note become one."""

    def __init__(self) -> None:
        self.store_set_by: str | None = None
        self.store: str | None = None
        # each once, in the order in which they were found
        self._found: dict[Finding, None] = {}
        self._notes: dict[tuple[str, str | None], dict[str, None]] = {}

    def __iter__(self) -> Iterator[Finding]:
        order = list(Level)
        yield from map(
            self._placed, sorted(self._found, key=lambda found: order.index(found.level))
        )
        for (problem, option), jobs in self._notes.items():
            yield self._placed(Finding(Level.NOTE, problem, tuple(jobs), option))

    def _placed(self, found: Finding) -> Finding:
        if found.option != STORE:
            return found
        return replace(found, store=self.store, set_by=self.store_set_by)

    def count(self, level: Level) -> int:
        """Return how many there are of a level."""
        return sum(found.level is level for found in self)

    @property
    def code(self) -> int:
        """The exit code: a mistake counts more than a server that is away, and that than doubts."""
        codes = {found.code for found in self._found} - {0}
        return next((code for code in (USAGE, *sorted(codes, reverse=True)) if code in codes), 0)

    def error(self, error: AnarchonError) -> None:
        """Take in an error of ours."""
        several: Sequence[AnarchonError] = getattr(error, "errors", (error,))
        for each in several:
            found = Finding(Level.ERROR, str(each), code=code_of(each))
            if isinstance(each, StoreError):
                found = replace(found, problem=each.problem, option=STORE)
            elif isinstance(each, ConfigurationError):
                jobs = () if each.job is None else (each.job,)
                found = replace(
                    found, problem=each.problem, jobs=jobs, option=each.option, fix=each.fix
                )
            self._add(found)

    def warning(
        self,
        problem: str,
        jobs: tuple[str, ...] = (),
        option: str | None = None,
        fix: str | None = None,
    ) -> None:
        """Take in a doubt."""
        self._add(Finding(Level.WARNING, problem, jobs, option, fix, FOUND_SOMETHING))

    def note(self, problem: str, jobs: tuple[str, ...] = (), option: str | None = None) -> None:
        """Take in something good to know."""
        self._notes.setdefault((one_line(problem), option), {}).update(dict.fromkeys(jobs))

    def unreachable(self, problem: str, option: str, code: int) -> None:
        """Take in a server that cannot be reached."""
        self._add(Finding(Level.ERROR, problem, option=option, code=code))

    def of(self, call: Callable[[], T]) -> T | None:
        """Return what a call returns; ``None`` if it raises, which is taken in."""
        try:
            return call()
        except Mistake as mistake:
            self._add(Finding(Level.ERROR, mistake.message, code=mistake.code))
        except AnarchonError as error:
            self.error(error)
        except (Exception, SystemExit) as error:
            self._add(Finding(Level.ERROR, told(error), code=USAGE))
        return None

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Take in what is logged meanwhile, in place of a line in the log."""
        listener = _Listener(self)
        with contextlib.ExitStack() as stack:
            for name in _HEARD:
                stack.enter_context(_listening(logging.getLogger(name), listener))
            yield

    def _add(self, found: Finding) -> None:
        # what others said of their URLs may hold a password
        self._found.setdefault(replace(found, problem=one_line(found.problem)))


@contextmanager
def _listening(logger: logging.Logger, listener: logging.Handler) -> Iterator[None]:
    """Hear a logger, and nobody else, whatever the project has made of it."""
    before = logger.propagate, logger.disabled, logger.level
    logger.addHandler(listener)
    logger.propagate, logger.disabled = False, False
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.removeHandler(listener)
        logger.propagate, logger.disabled = before[:2]
        logger.setLevel(before[2])


class _Listener(logging.Handler):
    """What is said of an entry when it is read is a note; all else that is logged is a doubt."""

    def __init__(self, findings: Findings) -> None:
        super().__init__(logging.WARNING)
        self._findings = findings

    def emit(self, record: logging.LogRecord) -> None:
        failure = record.exc_info[1] if record.exc_info else None
        if failure is not None:
            # Celery goes on without the entries that a handler of its signals would have added
            self._findings.warning(f"a handler of a signal has failed: {told(failure)}")
            return
        entry, what = getattr(record, "entry", None), getattr(record, "what", None)
        if isinstance(entry, str) and isinstance(what, str):
            self._findings.note(what, (entry,))
        else:
            self._findings.warning(record.getMessage())
