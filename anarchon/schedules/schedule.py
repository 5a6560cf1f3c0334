"""What every schedule can be asked."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Protocol


class Schedule(Protocol):
    """A set of slots: aware UTC moments in whole milliseconds.

    ``next_after`` and ``latest_at`` are two views of that one set. Whatever zone the
    argument is in, only its instant counts; a naive moment is a ``ValueError``.
    """

    def next_after(self, moment: datetime, /) -> datetime | None:
        """Return the first slot after the moment, ``None`` if there is none."""

    def latest_at(self, moment: datetime, /) -> datetime | None:
        """Return the newest slot at or before the moment, ``None`` if there is none."""

    def canonical(self) -> str:
        """Return the schedule's meaning as text: equal meaning, equal text."""

    def fingerprint(self, now: datetime, /) -> str:
        """Return a short hash that differs where two instances would disagree on a slot.

        Beside the canonical text it covers what the schedule takes from this machine: the
        time zone data. ``now`` decides which years of them.
        """


def digest(text: str) -> str:
    """Return a short hash of a text, the same on every machine."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
