"""`Polled`: a rule that names no slots, and only says whether one is due by now."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import datetime, timedelta

from anarchon.schedules.schedule import digest


class Polled(ABC):
    """A schedule whose slots follow from one another, and cannot be known beforehand.

    Every instance asks it, given the newest slot of its job in the store. Whoever first tells
    the store that it is due has found the next slot: that moment, by the store's clock. So
    nothing can be missed or caught up: what is due after a downtime is due then.
    """

    @abstractmethod
    def is_due(self, newest: datetime, now: datetime, /) -> tuple[bool, timedelta | None]:
        """Tell whether a slot is due by now, and how long after now to ask again.

        ``newest`` is the job's newest slot, or when the store first saw the job so. Where it
        cannot be told when to ask, ``None``: within a minute. May block, and may raise: then
        it is asked again.
        """

    @abstractmethod
    def canonical(self) -> str:
        """Return what the rule is as text: the same on every instance, as long as it runs."""

    def fingerprint(self, now: datetime, /) -> str:
        """Return the hash of the canonical text."""
        return digest(self.canonical())

    def next_after(self, moment: datetime, /) -> datetime | None:
        """Return ``None``: nobody knows."""
        return None

    def latest_at(self, moment: datetime, /) -> datetime | None:
        """Return ``None``: only the store knows."""
        return None
