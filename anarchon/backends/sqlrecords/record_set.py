"""The records of some jobs while they are asked about, and what differs from what was loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

from anarchon.backends.steps import NO_RECORD, answered
from anarchon.record import JobRecord, Run, Seen, Step
from anarchon.run import Attempt
from anarchon.store import Begin, Claim, Finish, Registration, Release, Renewal

Q = TypeVar("Q", Claim, Renewal, Begin, Finish, Release, Registration)
A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class Changes:
    """What is to be written, each with the name of its job.

    ``made`` are jobs that had no record, ``moved`` those whose own row differs, and ``touched``
    all that had one and of which anything differs. With the run of a slot in ``gone`` go its
    attempts.
    """

    made: dict[str, JobRecord]
    moved: dict[str, JobRecord]
    touched: dict[str, JobRecord]
    noted: list[tuple[str, str, Seen]]
    forgotten: list[tuple[str, str]]
    runs: list[tuple[str, Run]]
    gone: list[tuple[str, datetime]]
    attempts: list[Attempt]


class RecordSet:
    """Records as they were loaded, and as the steps since then left them.

    ``time`` is the store's. Of a job's runs only those need be here that its steps ask for.
    """

    def __init__(self, time: datetime) -> None:
        self.time = time
        self._loaded: dict[str, JobRecord] = {}
        self._records: dict[str, JobRecord] = {}
        self._attempts: dict[tuple[str, datetime, int], Attempt] = {}

    @property
    def changed(self) -> bool:
        """Tell whether there is anything to write."""
        return any(record is not self._loaded.get(job) for job, record in self._records.items())

    def get(self, job: str) -> JobRecord | None:
        """Return a record that was loaded, or made by a step."""
        return self._records.get(job)

    def put(self, job: str, record: JobRecord) -> None:
        """Take in a record as it was loaded."""
        self._loaded[job] = self._records[job] = record

    def put_past(self, job: str, runs: Iterable[Run]) -> None:
        """Take in further runs of a job that was loaded."""
        before, record = self._loaded[job], self._records[job]
        past = {run.slot: run for run in runs if run.slot not in before.runs}
        if not past:
            return
        self._loaded[job] = replace(before, runs={**before.runs, **past})
        self._records[job] = (
            self._loaded[job] if record is before else replace(record, runs={**record.runs, **past})
        )

    def apply(self, job: str, step: Step[A]) -> None:
        """Take over what a step changes."""
        self._records[job] = step.record
        for attempt in step.attempts:
            self._attempts[job, attempt.slot, attempt.attempt] = attempt

    def answers(
        self,
        rule: Callable[[JobRecord, Q, datetime], Step[A]],
        questions: Sequence[Q],
        *,
        make: Callable[[Q, datetime], JobRecord] | None = None,
    ) -> list[A]:
        """Answer questions about what was loaded, and take over what that changes."""
        return answered(
            rule,
            questions,
            self.time,
            get=lambda asked: self.get(asked.job),
            keep=self.apply,
            make=make,
        )

    def changes(self) -> Changes:
        """Return what differs from what was loaded."""
        found = Changes({}, {}, {}, [], [], [], [], list(self._attempts.values()))
        for job, record in self._records.items():
            before = self._loaded.get(job)
            if record is before:
                continue
            if before is None:
                found.made[job] = record
                before = NO_RECORD
            else:
                found.touched[job] = record
                if _row_of(before) != _row_of(record):
                    found.moved[job] = record
            _compare(found, job, before, record)
        return found


def _row_of(record: JobRecord) -> tuple[object, ...]:
    return record.floor, record.newest, record.fence


def _compare(found: Changes, job: str, before: JobRecord, record: JobRecord) -> None:
    found.noted.extend(
        (job, fingerprint, seen)
        for fingerprint, seen in record.seen.items()
        if before.seen.get(fingerprint) != seen
    )
    found.forgotten.extend((job, name) for name in before.seen if name not in record.seen)
    found.runs.extend(
        (job, run) for slot, run in record.runs.items() if before.runs.get(slot) is not run
    )
    found.gone.extend((job, slot) for slot in before.runs if slot not in record.runs)
