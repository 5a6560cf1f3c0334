"""Whatever goes wrong, told in one line, with the exit code that stands for it."""

from __future__ import annotations

import traceback
from pathlib import Path

import click

from anarchon import AnarchonError, OutcomeUnknown, StoreRefused, StoreUnavailable
from anarchon.backends.urls import without_passwords

FOUND_SOMETHING = 1
USAGE = 2
STORE_UNREACHABLE = 3
PIDFILE_IN_USE = 4
INTERRUPTED = 130


class Mistake(click.ClickException):
    """Something the user can put right."""

    def __init__(self, message: str, code: int = USAGE) -> None:
        super().__init__(message)
        self.code = code


def code_of(error: AnarchonError) -> int:
    """Return the exit code that stands for an error of the engine."""
    away = isinstance(error, StoreUnavailable | OutcomeUnknown)
    return STORE_UNREACHABLE if away and not isinstance(error, StoreRefused) else USAGE


def one_line(text: str) -> str:
    """Return a text on one line, and with the passwords of its URLs hidden."""
    first, *more = [" ".join(line.split()) for line in text.splitlines()] or [""]
    joined = f"{first} {' | '.join(more)}" if more else first
    return without_passwords(joined)


def told(error: BaseException) -> str:
    """Say what a user's own code raised, and where."""
    said = str(error)
    if not isinstance(error, AnarchonError):
        said = f"{type(error).__name__}: {said}" if said else type(error).__name__
    # a SyntaxError names its place itself
    if isinstance(error, SyntaxError) or error.__traceback__ is None:
        return said
    theirs = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_theirs(frame)]
    if not theirs:
        return said
    return f"{said} ({Path(theirs[-1].filename).name}, line {theirs[-1].lineno})"


def _is_theirs(frame: traceback.FrameSummary) -> bool:
    path = Path(frame.filename)
    return path.is_relative_to(Path.cwd()) and "site-packages" not in path.parts
