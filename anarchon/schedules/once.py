"""`At`: one slot, at a moment."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from anarchon.clock import rfc3339
from anarchon.schedules.moments import (
    as_utc,
    refuse_finer_than_milliseconds,
    refuse_naive,
)
from anarchon.schedules.schedule import digest
from anarchon.schedules.zones import instant_of


@dataclass(frozen=True, slots=True, init=False, repr=False)
class At:
    """The one slot at an aware moment.

    A local time the clocks skip stands for the instant they jumped, as in `Cron`. One they
    repeat is its first pass, unless the moment says ``fold=1``.
    """

    moment: datetime

    def __init__(self, moment: datetime) -> None:
        slot = instant_of(refuse_naive(moment, "moment"))
        refuse_finer_than_milliseconds(slot, "moment")
        object.__setattr__(self, "moment", slot)

    def next_after(self, moment: datetime, /) -> datetime | None:
        """Return the slot if it lies after the moment."""
        return self.moment if as_utc(moment) < self.moment else None

    def latest_at(self, moment: datetime, /) -> datetime | None:
        """Return the slot unless it lies after the moment."""
        return self.moment if as_utc(moment) >= self.moment else None

    def canonical(self) -> str:
        """Return the instant, in UTC."""
        return f"at {rfc3339(self.moment)}"

    def fingerprint(self, now: datetime, /) -> str:
        """Return the hash of the canonical text: an instant needs nothing else."""
        return digest(self.canonical())

    def __str__(self) -> str:
        return self.canonical()

    def __repr__(self) -> str:
        return f"At({rfc3339(self.moment)})"
