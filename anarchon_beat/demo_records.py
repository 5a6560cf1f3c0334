"""What the demo's jobs wrote themselves, one line a record, and what it proves.

The file lies outside the store: it is what happened, not what the store believes. It is
only ever appended to, in single writes, so that no process hurts a line of another.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path

from anarchon import Schedule
from anarchon.clock import from_millis, to_millis


@dataclass(frozen=True, slots=True)
class Record:
    """One line: what a process did.

    ``what`` is ``ready``, ``start``, ``end``, ``stopped`` (a handler that its signal ended)
    or ``late`` (``count`` slots up to this one were too old to start).
    """

    what: str
    by: str
    job: str = ""
    slot_millis: int = 0
    attempt: int = 0
    count: int = 1

    @property
    def slot(self) -> datetime:
        """The slot that was run."""
        return from_millis(self.slot_millis)


class Recorder:
    """Appends the records of one process."""

    def __init__(self, path: Path, by: str) -> None:
        self._by = by
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(
        self,
        what: str,
        *,
        job: str = "",
        slot: datetime | None = None,
        attempt: int = 0,
        count: int = 1,
    ) -> None:
        """Append one record."""
        millis = to_millis(slot) if slot is not None else 0
        record = Record(what, self._by, job, millis, attempt, count)
        os.write(self._file, (json.dumps(asdict(record)) + "\n").encode())


class Reader:
    """Reads what has been appended since it looked last."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0
        self.all: list[Record] = []

    def new(self) -> list[Record]:
        """Return the records that are new."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                text = file.read()
        except FileNotFoundError:
            return []
        whole, newline, _ = text.rpartition(b"\n")
        self._at += len(whole) + len(newline)
        found = [Record(**json.loads(line)) for line in whole.splitlines()]
        self.all += found
        return found


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the records say about the slots from ``first`` to the last."""

    slots: int
    runs: int
    """Slots that a handler ran to its end."""
    duplicates: int
    """Ends beyond the first of a slot, and attempts that were started twice."""
    takeovers: int
    late: int
    """Slots nobody started, because all came too late to them: the machine stood still."""
    lost: tuple[tuple[str, datetime], ...]
    """Slots nobody ran, without such a reason."""

    @property
    def is_kept(self) -> bool:
        """Tell whether every slot ran once."""
        return not self.duplicates and not self.lost

    def __str__(self) -> str:
        said = (
            f"{self.slots} slots, {self.runs} runs, {self.duplicates} duplicates,"
            f" {self.takeovers} takeover{'' if self.takeovers == 1 else 's'}"
        )
        if self.late:
            said += f", {self.late} too late to start (this machine stood still)"
        return said


def judge(
    records: Iterable[Record],
    schedules: Mapping[str, Schedule],
    first: datetime,
    last: datetime,
    *,
    disturbed: Iterable[str] = (),
) -> Verdict:
    """Hold the records against the schedules: all their slots from ``first`` to ``last``.

    What a ``disturbed`` process says it came too late for is no excuse for the others.
    """
    expected = {
        (job, slot) for job, schedule in schedules.items() for slot in slots(schedule, first, last)
    }
    records = list(records)
    # of slots outside the span nobody says that all of them must have run; doubles count anywhere
    starts = Counter((r.job, r.slot, r.attempt) for r in records if r.what == "start")
    ends = Counter((r.job, r.slot) for r in records if r.what == "end")
    missing = sorted(expected - set(ends), key=lambda each: (each[1], each[0]))
    told_late = [r for r in records if r.what == "late" and r.by not in set(disturbed)]
    late = [each for each in missing if _was_late(*each, told_late, schedules)]
    return Verdict(
        slots=len(expected),
        runs=len(expected & set(ends)),
        duplicates=sum(n - 1 for n in (*starts.values(), *ends.values())),
        takeovers=sum(1 for _, _, attempt in starts if attempt > 1),
        late=len(late),
        lost=tuple(each for each in missing if each not in late),
    )


def slots(schedule: Schedule, first: datetime, last: datetime) -> list[datetime]:
    """Return the slots of a schedule from ``first`` to ``last``, both included."""
    found: list[datetime] = []
    slot = schedule.next_after(first - timedelta(milliseconds=1))
    while slot is not None and slot <= last:
        found.append(slot)
        slot = schedule.next_after(slot)
    return found


def _was_late(
    job: str, slot: datetime, told: Iterable[Record], schedules: Mapping[str, Schedule]
) -> bool:
    return any(
        record.job == job
        and slot <= record.slot
        and len(slots(schedules[job], slot, record.slot)) <= record.count
        for record in told
    )
