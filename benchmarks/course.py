"""The broker on which contestants are measured, and how one is brought to its first slot."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from benchmarks.contestants import Contestant
from benchmarks.outlet import Outlet
from benchmarks.processes import Processes, fill

#: Who has not started shortly before its slot is given more time.
_TRIES = 3


class Course:
    """Lets contestants run one after the other; each finds an empty broker."""

    def __init__(self, broker: str) -> None:
        self.outlet = Outlet(broker)
        self._broker = broker

    @contextmanager
    def started(
        self, contestant: Contestant, spec: Mapping[str, Any], lead: float, unit: int = 1
    ) -> Iterator[tuple[Processes, float]]:
        """Start a contestant and give its processes, and its first slot, which is about to come.

        The slot is a whole ``unit`` of seconds at least ``lead`` away. Raises ``Ended``.
        """
        fill(contestant, {"broker": self._broker, "slot": 0.0, **spec})
        for attempt in range(_TRIES):
            self.outlet.clear()
            slot = float(math.ceil((time.time() + lead) / unit) * unit)
            whole = {"broker": self._broker, "slot": slot, **spec}
            with Processes(contestant, whole) as running:
                if running.are_ready_for(slot) or attempt == _TRIES - 1:
                    yield running, slot
                    return
            lead *= 2
