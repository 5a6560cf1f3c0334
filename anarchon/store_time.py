"""The store's clock, as far as it can be known here."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from anarchon.clock import EPOCH, Clock

#: By how much two clocks may part in a second. What is learned of a call that took seconds
#: may be off by as many: it must not replace what a quick one told minutes ago.
_DRIFT = 0.001


class StoreTime:
    """The store's clock as known here: our monotonic time plus an offset.

    An answer's time belongs to some moment between the question and the answer; the middle
    is taken, of the quickest call, which is worth less the older it is. A time that cannot fit
    the offset kept proves that the store's clock was set, and replaces it; ``when_set`` is
    called then.
    """

    def __init__(self, clock: Clock) -> None:
        self.when_set: Callable[[], object] = lambda: None
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
        was_set = self._offset is not None and not lowest <= self._offset <= highest
        aged = self._trip + 2 * _DRIFT * (after - self._sampled)
        if self._offset is None or was_set or after - before < aged:
            self._offset = told - (before + after) / 2
            self._trip = after - before
            self._sampled = after
        if was_set:
            self.when_set()
