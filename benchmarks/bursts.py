"""One burst: entries due at one moment, and what of them reached the broker when."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks.contestants import Contestant, flat_out
from benchmarks.course import Course
from benchmarks.effort import Effort
from benchmarks.processes import Processes
from benchmarks.units import in_seconds

#: A contestant gets so long; a small burst is measured more than once.
LIMIT = 120.0
_SMALL, _RUNS = 1_000, 3
#: A message that comes so long after the last one was one too many.
_AFTERMATH = 1.5

Entrant = Callable[[], Contestant]


@dataclass
class Result:
    """What the bursts of one contestant at one size came to; ``seconds`` of those that ended."""

    label: str
    name: str
    instances: int
    jobs: int
    seconds: list[float] = field(default_factory=list)
    arrived: int = 0
    doubled: int = 0
    lost: int = 0
    again: int = 0

    @property
    def finished(self) -> bool:
        """Whether each of its bursts ended in time."""
        return bool(self.seconds) and not self.lost

    @property
    def median(self) -> float:
        """The seconds it took, or what it did not even take."""
        return statistics.median(self.seconds) if self.finished else LIMIT

    @property
    def shown(self) -> str:
        """The time as the table shows it."""
        if self.finished:
            return in_seconds(self.median)
        return f"did not finish in {LIMIT:.0f} s ({self.arrived:,} came)"

    @property
    def each(self) -> float:
        """The seconds of one message."""
        return self.median / self.jobs


class Bursts:
    """Lets contestants have their bursts, one after the other, on one broker."""

    def __init__(self, broker: str, effort: Effort) -> None:
        self._course = Course(broker)
        self._effort = effort

    def measure(self, entrant: Entrant, jobs: int) -> Result:
        """Return what its bursts came to; raises ``Ended``."""
        result: Result | None = None
        spec = {"entries": self._effort.pick("minute", "once"), "jobs": jobs}
        # crontabs know minutes only; a look need not wait for one
        lead, unit = self._effort.pick((15 + jobs / 300, 60), (6.0, 1))
        for _ in range(self._runs(jobs)):
            contestant = entrant()
            result = result or _result_of(contestant, jobs)
            with self._course.started(contestant, spec, lead, unit) as (running, slot):
                self._note(result, running, slot)
            if not result.finished:
                break
        assert result is not None
        return result

    def flat_out(self, jobs: int, processes: int) -> Result:
        """Return how long so many processes take that only publish."""
        contestant = flat_out(jobs, processes)
        result = _result_of(contestant, jobs)
        for _ in range(self._effort.pick(_RUNS, 1)):
            with self._course.started(contestant, {"entries": "none"}, 5.0) as (running, slot):
                self._note(result, running, slot)
        return result

    def _runs(self, jobs: int) -> int:
        return _RUNS if jobs <= _SMALL and not self._effort.quick else 1

    def _note(self, result: Result, running: Processes, slot: float) -> None:
        outlet = self._course.outlet
        came = outlet.watch(result.jobs, slot + LIMIT, meanwhile=running.check)
        time.sleep(_AFTERMATH)
        counts: Counter[int] = Counter()
        for message in outlet.messages():
            counts[message.number] += 1
            result.again += message.attempt > 1
        if len(counts) == result.jobs:
            result.seconds.append(came.newest - slot)
        result.arrived = len(counts)
        result.lost += result.jobs - len(counts)
        result.doubled += counts.total() - len(counts)


def _result_of(contestant: Contestant, jobs: int) -> Result:
    return Result(contestant.label, contestant.name, contestant.instances, jobs)
