"""The records of some jobs within one transaction: loaded, changed by steps, written back.

Loaded is only what the rules need: the runs asked for and those that have not ended.
Written is only what differs from what was loaded.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from itertools import chain
from typing import TypeVar

from anarchon.backends.sqlite import rows
from anarchon.backends.steps import NO_RECORD
from anarchon.clock import from_millis, to_millis
from anarchon.rules import JobRecord, Run, Seen, Step
from anarchon.run import Attempt

A = TypeVar("A")

#: Keys a statement: SQLite before 3.32 takes no more than 999 values in all.
_PORTION = 400

# the condition is word for word that of the index; left alone, SQLite reads all runs of a job
_UNFINISHED = "anarchon_run indexed by anarchon_unfinished"
_IS_UNFINISHED = "state in ('claimed', 'running')"
# a join, since SQLite looks up pairs in no index; and crossed, so that it keeps the order
_ASKED = "with asked (of_job, at_slot) as ({keys}) select"
_BY_SLOT = "on job = of_job and slot = at_slot"


class Records:
    """What one transaction knows of the jobs of one namespace; ``time`` is the store's."""

    def __init__(self, connection: sqlite3.Connection, namespace: str, time: datetime) -> None:
        self.time = time
        self._connection = connection
        self._namespace = namespace
        self._ids: dict[str, int] = {}
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

    def apply(self, job: str, step: Step[A]) -> None:
        """Take over what a step changes."""
        self._records[job] = step.record
        for attempt in step.attempts:
            self._attempts[job, attempt.slot, attempt.attempt] = attempt

    def load(
        self,
        jobs: Iterable[str],
        slots: Iterable[tuple[str, datetime]] = (),
        *,
        fingerprints: bool = False,
    ) -> None:
        """Load jobs, each with its unfinished runs, the runs of some slots, and fingerprints."""
        names = [(name,) for name in dict.fromkeys(jobs) if name not in self._ids]
        found = {
            job: (name, floor, fence)
            for job, name, floor, fence in self._select(
                "select id, name, floor, fence from anarchon_job"
                " where namespace = ? and name in ({keys})",
                names,
                self._namespace,
            )
        }
        self._ids.update((name, job) for job, (name, _, _) in found.items())
        ids = [(job,) for job in found]
        runs: dict[int, dict[datetime, Run]] = {job: {} for job in found}
        for row in chain(
            self._select(
                f"select {rows.RUN} from {_UNFINISHED}"
                f" where {_IS_UNFINISHED} and job in ({{keys}})",
                ids,
            ),
            self._select(
                f"{_ASKED} {rows.RUN} from asked cross join anarchon_run {_BY_SLOT}",
                [(self._ids[name], to_millis(slot)) for name, slot in slots if name in self._ids],
            ),
        ):
            run = rows.run_of(row)
            runs[row[0]][run.slot] = run
        seen: dict[int, dict[str, Seen]] = {job: {} for job in found}
        if fingerprints:
            for job, fingerprint, first, last in self._select(
                "select job, fingerprint, first_seen, last_seen from anarchon_fingerprint"
                " where job in ({keys})",
                ids,
            ):
                seen[job][fingerprint] = Seen(from_millis(first), from_millis(last))
        for job, (name, floor, fence) in found.items():
            record = JobRecord(from_millis(floor), fence, seen[job], runs[job])
            self._loaded[name] = self._records[name] = record

    def load_past(self, job: str, up_to: datetime) -> None:
        """Load the runs of a job up to a slot, too."""
        key = (self._ids[job], to_millis(up_to))
        past = {
            run.slot: run
            for run in map(
                rows.run_of,
                self._connection.execute(
                    f"select {rows.RUN} from anarchon_run where job = ? and slot <= ?", key
                ),
            )
            if run.slot not in self._loaded[job].runs
        }
        if not past:
            return
        before, record = self._loaded[job], self._records[job]
        self._loaded[job] = replace(before, runs={**before.runs, **past})
        self._records[job] = (
            self._loaded[job] if record is before else replace(record, runs={**record.runs, **past})
        )

    def load_unfinished_before(self, slot: datetime) -> list[str]:
        """Load and name the jobs with an unfinished run of a slot before this one."""
        found = self._connection.execute(
            f"select distinct name from {_UNFINISHED} cross join anarchon_job on id = job"
            f" where {_IS_UNFINISHED} and slot < ? and namespace = ?",
            (to_millis(slot), self._namespace),
        ).fetchall()
        names = [name for (name,) in found]
        self.load(names)
        return names

    def surplus(self, job: str, keep: int) -> datetime | None:
        """Return the slot of the newest attempt for which there is no room among ``keep``."""
        found = self._connection.execute(
            "select slot from anarchon_attempt where job = ? order by slot desc limit 1 offset ?",
            (self._ids[job], keep),
        ).fetchone()
        return None if found is None else from_millis(found[0])

    def count_attempts(self, job: str, slots: Iterable[datetime]) -> int:
        """Return how many attempts the history has of these slots."""
        keys = [(self._ids[job], to_millis(slot)) for slot in slots]
        counts = self._select(
            f"{_ASKED} count(*) from asked cross join anarchon_attempt {_BY_SLOT}", keys
        )
        return sum(count for (count,) in counts)

    def newest_attempts(self, job: str, limit: int) -> list[Attempt]:
        """Return the history of a job that was loaded, newest first."""
        return [
            rows.attempt_of(job, row)
            for row in self._connection.execute(
                f"select {rows.ATTEMPT} from anarchon_attempt where job = ?"
                " order by slot desc, attempt desc limit ?",
                (self._ids[job], limit),
            )
        ]

    def save(self) -> None:
        """Write what differs from what was loaded."""
        changed = {
            job: record
            for job, record in self._records.items()
            if record is not self._loaded.get(job)
        }
        for job, record in changed.items():
            self._save_job(job, record)
        self._save_fingerprints(changed)
        self._save_runs(changed)
        self._write(
            f"insert into anarchon_attempt ({rows.ATTEMPT}) values ({{marks}})"
            " on conflict (job, slot, attempt) do update"
            " set state = excluded.state, ended = excluded.ended, detail = excluded.detail",
            [rows.row_of_attempt(self._ids[a.job], a) for a in self._attempts.values()],
        )

    def _save_job(self, job: str, record: JobRecord) -> None:
        before = self._loaded.get(job)
        floor = to_millis(record.floor)
        if before is None:
            made = self._connection.execute(
                "insert into anarchon_job (namespace, name, floor, fence) values (?, ?, ?, ?)",
                (self._namespace, job, floor, record.fence),
            )
            assert made.lastrowid is not None
            self._ids[job] = made.lastrowid
        elif (before.floor, before.fence) != (record.floor, record.fence):
            self._connection.execute(
                "update anarchon_job set floor = ?, fence = ? where id = ?",
                (floor, record.fence, self._ids[job]),
            )

    def _save_fingerprints(self, changed: Mapping[str, JobRecord]) -> None:
        noted, forgotten = [], []
        for job, record in changed.items():
            number, before = self._ids[job], self._before(job).seen
            noted += [
                (number, fingerprint, to_millis(seen.first), to_millis(seen.last))
                for fingerprint, seen in record.seen.items()
                if before.get(fingerprint) != seen
            ]
            forgotten += [(number, name) for name in before if name not in record.seen]
        self._write(
            "replace into anarchon_fingerprint (job, fingerprint, first_seen, last_seen)"
            " values ({marks})",
            noted,
        )
        self._write("delete from anarchon_fingerprint where job = ? and fingerprint = ?", forgotten)

    def _save_runs(self, changed: Mapping[str, JobRecord]) -> None:
        written, gone = [], []
        for job, record in changed.items():
            number, before = self._ids[job], self._before(job).runs
            written += [
                rows.row_of_run(number, run)
                for slot, run in record.runs.items()
                if before.get(slot) is not run
            ]
            gone += [(number, to_millis(slot)) for slot in before if slot not in record.runs]
        self._write(f"replace into anarchon_run ({rows.RUN}) values ({{marks}})", written)
        self._write("delete from anarchon_run where job = ? and slot = ?", gone)
        self._write("delete from anarchon_attempt where job = ? and slot = ?", gone)

    def _before(self, job: str) -> JobRecord:
        return self._loaded.get(job) or NO_RECORD

    def _write(self, statement: str, values: list[rows.Row]) -> None:
        if values:
            marks = ", ".join("?" * len(values[0]))
            self._connection.executemany(statement.format(marks=marks), values)

    def _select(self, statement: str, keys: list[rows.Row], *first: object) -> Iterator[rows.Row]:
        """Run a query whose ``{keys}`` stands for a list of keys, a portion of them at a time."""
        for start in range(0, len(keys), _PORTION):
            portion = keys[start : start + _PORTION]
            mark = f"({', '.join('?' * len(portion[0]))})"
            listed = f"values {', '.join([mark] * len(portion))}"
            yield from self._connection.execute(
                statement.format(keys=listed), (*first, *chain.from_iterable(portion))
            )
