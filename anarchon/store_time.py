"""The store's clock, as far as it can be known here."""

from __future__ import annotations

from datetime import datetime, timedelta

from anarchon.clock import EPOCH, Clock

_SAMPLE_LIFE = 60.0


class StoreTime:
    """The store's clock as known here: our monotonic time plus an offset.

    An answer's time belongs to some moment between the question and the answer; the middle
    is taken, of the quickest call of the last minute. A time that cannot fit the offset kept
    proves that the store's clock was set, and replaces it.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset: float | None = None
        self._trip = 0.0
        self._sampled = 0.0

    def now(self) -> datetime:
        """Return the store's time; before the first answer, the local wall clock's."""
        if self._offset is None:
            return self._clock.wall()
        return EPOCH + timedelta(seconds=self._clock.monotonic() + self._offset)

    def observe(self, before: float, after: float, time: datetime) -> None:
        """Learn from an answer that came ``after`` a question sent ``before``."""
        told = (time - EPOCH).total_seconds()
        # stores tell whole milliseconds, rounded down: up to one behind is better than ahead,
        # for what is asked before its slot has to be asked again
        lowest, highest = told - after, told + 0.001 - before
        stale = after - self._sampled > _SAMPLE_LIFE
        fits = self._offset is not None and lowest <= self._offset <= highest
        if stale or not fits or after - before < self._trip:
            self._offset = told - (before + after) / 2
            self._trip = after - before
            self._sampled = after
