"""How much an instance may have under way at once.

An instance claims only what it can start at once. While it is full its claims wait, until
the slot is late, and other instances take them: this is what shares a burst. What waits is no
task, only a record: ten thousand of them cost little.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from anarchon.clock import Clock, Timer


@dataclass(order=True, slots=True)
class _Waiting:
    until: float
    start: Callable[[], object] | None = field(compare=False)
    too_late: Callable[[], object] = field(compare=False)


class Room:
    """A number of places; whoever comes when all are taken waits in line."""

    def __init__(self, places: int | None, clock: Clock) -> None:
        self._clock = clock
        self._free = float("inf") if places is None else places
        self._line: deque[_Waiting] = deque()
        #: The same, by the end of their patience; whoever was started stays until then.
        self._by_end: list[_Waiting] = []
        self._timer: Timer | None = None

    def enter(
        self, seconds: float, start: Callable[[], object], too_late: Callable[[], object]
    ) -> None:
        """Call ``start`` with a place taken, at once or within so many seconds.

        Else ``too_late`` is called then. Whoever was started gives the place back by ``leave``.
        """
        if seconds < 0:
            too_late()
        elif self._free > 0:
            self._free -= 1
            start()
        else:
            waiting = _Waiting(self._clock.monotonic() + seconds, start, too_late)
            self._line.append(waiting)
            heapq.heappush(self._by_end, waiting)
            if self._by_end[0] is waiting:
                self._set_timer()

    def leave(self) -> None:
        """Give the place to the next in line."""
        self._free += 1
        if not self._line:
            return
        while self._line and self._free > 0:
            waiting = self._line.popleft()
            start, waiting.start = waiting.start, None
            if start is not None:
                self._free -= 1
                start()
        if not self._line:
            # all were started, or were too late
            self.empty()

    def empty(self) -> None:
        """Forget whoever waits."""
        self._line.clear()
        self._by_end.clear()
        self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._by_end:
            left = self._by_end[0].until - self._clock.monotonic()
            self._timer = self._clock.call_later(max(left, 0.0), self._end_patience)

    def _end_patience(self) -> None:
        now = self._clock.monotonic()
        while self._by_end and (self._by_end[0].start is None or self._by_end[0].until <= now):
            waiting = heapq.heappop(self._by_end)
            if waiting.start is not None:
                waiting.start = None
                waiting.too_late()
        while self._line and self._line[0].start is None:
            self._line.popleft()
        self._set_timer()
