"""How much a run of the benchmarks takes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Effort:
    """``quick`` is a look at whether everything still works: small numbers, and no peers.

    Figures of a quick run say nothing. ``sizes`` are the numbers of schedules to measure
    instead of a figure's own.
    """

    quick: bool = False
    sizes: Sequence[int] = ()

    def pick(self, full: T, quick: T) -> T:
        """Return what belongs to this effort."""
        return quick if self.quick else full

    def sizes_or(self, full: Sequence[int], quick: Sequence[int]) -> Sequence[int]:
        """Return the numbers of schedules to measure."""
        return self.sizes or self.pick(full, quick)
