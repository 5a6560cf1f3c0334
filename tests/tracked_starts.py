"""What must hold of the starts of tracked runs, wherever they were written down.

The simulation judges by it what its workers did in virtual time, chaos what real ones did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class TrackedStart:
    """One start of a task for a run; until ``busy_until`` nobody else may have been at work."""

    job: str
    slot: datetime
    attempt: int
    fence: int
    retry: int
    worker: str
    started: datetime
    busy_until: datetime
    #: ``None`` as long as it works, or if it died.
    outcome: str | None

    def __str__(self) -> str:
        return (
            f"{self.job}@{self.slot.time()} attempt {self.attempt} retry {self.retry} on"
            f" {self.worker} from {self.started.time()} to {self.busy_until.time()}:"
            f" {self.outcome}"
        )


@dataclass(frozen=True, slots=True)
class Broken:
    """Two starts of which the second should not have been."""

    promise: str
    why: str
    first: TrackedStart
    second: TrackedStart

    def __str__(self) -> str:
        return f"{self.promise}: {self.why}: {self.second}; after {self.first}"


def doubled(starts: Sequence[TrackedStart]) -> Iterator[Broken]:
    """G12: an attempt starts once for each retry."""
    seen: dict[tuple[object, ...], TrackedStart] = {}
    for start in starts:
        first = seen.setdefault((start.job, start.slot, start.attempt, start.retry), start)
        if first is not start:
            yield Broken("G12", "started twice", first, start)


def out_of_order(starts: Sequence[TrackedStart]) -> Iterator[Broken]:
    """G4, G5: who was superseded starts nothing, and the fence grows with the attempts."""
    for some in _by(starts, lambda start: (start.job, start.slot)):
        for first, second in pairwise(some):
            if (first.attempt, first.retry) >= (second.attempt, second.retry):
                yield Broken("G4", "superseded, and started", first, second)
            elif first.attempt < second.attempt and first.fence >= second.fence:
                yield Broken("G5", "no higher fence", first, second)


def overlapping(starts: Sequence[TrackedStart], skips: frozenset[str]) -> Iterator[Broken]:
    """G1, G3: nobody starts while another is at work on the run, or under skip on the job."""
    for some in _by(starts, lambda start: start.job):
        for at, second in enumerate(some):
            for first in some[:at]:
                is_kept = first.slot == second.slot or second.job in skips
                if is_kept and first.busy_until > second.started:
                    yield Broken("G3", "beside another's work", first, second)


def _by(
    starts: Sequence[TrackedStart], key: Callable[[TrackedStart], object]
) -> Iterator[Sequence[TrackedStart]]:
    groups: dict[object, list[TrackedStart]] = {}
    for start in starts:
        groups.setdefault(key(start), []).append(start)
    yield from groups.values()
