"""What is wrong with a project's entries, all of it at once."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NoReturn

from anarchon import ConfigurationError

log = logging.getLogger("anarchon.celery")


class InvalidEntries(ConfigurationError):
    """Entries that cannot be scheduled; ``errors`` holds one error for each problem."""

    def __init__(self, errors: Sequence[ConfigurationError]) -> None:
        self.errors = tuple(errors)
        super().__init__(f"{len(self.errors)} problems in the entries", option="beat_schedule")

    def __str__(self) -> str:
        if len(self.errors) == 1:
            return str(self.errors[0])
        return "\n".join([f"{self.option}: {self.problem}:", *(f"  {e}" for e in self.errors)])


def end_for(error: ConfigurationError) -> NoReturn:
    """End a beat or a worker for a mistake in the project, without the traceback of our code."""
    log.critical("%s", error)
    raise SystemExit(1) from None
