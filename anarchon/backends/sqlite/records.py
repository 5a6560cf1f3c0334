"""The records of some jobs within one transaction: loaded, changed by steps, written back.

Loaded is only what the rules need: the runs asked for and those that have not ended.
Written is only what differs from what was loaded.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import chain

from anarchon.backends.sqlrecords import rows
from anarchon.backends.sqlrecords.record_set import RecordSet
from anarchon.clock import from_millis, to_millis
from anarchon.record import JobRecord, Run, Seen
from anarchon.run import Attempt

#: Keys a statement: SQLite before 3.32 takes no more than 999 values in all.
_PORTION = 400

# the condition is word for word that of the index; left alone, SQLite reads all runs of a job
_UNFINISHED = "anarchon_run indexed by anarchon_unfinished"
_IS_UNFINISHED = "state in ('claimed', 'queued', 'running')"
# a join, since SQLite looks up pairs in no index; and crossed, so that it keeps the order
_ASKED = "with asked (of_job, at_slot) as ({keys}) select"
_BY_SLOT = "on job = of_job and slot = at_slot"


class Records(RecordSet):
    """What one transaction knows of the jobs of one namespace; ``time`` is the store's."""

    def __init__(self, connection: sqlite3.Connection, namespace: str, time: datetime) -> None:
        super().__init__(time)
        self._connection = connection
        self._namespace = namespace
        self._ids: dict[str, int] = {}

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
            job: (name, floor, newest, fence)
            for job, name, floor, newest, fence in self._select(
                "select id, name, floor, newest, fence from anarchon_job"
                " where namespace = ? and name in ({keys})",
                names,
                self._namespace,
            )
        }
        self._ids.update((name, job) for job, (name, *_) in found.items())
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
                f"select {rows.FINGERPRINT} from anarchon_fingerprint where job in ({{keys}})",
                ids,
            ):
                seen[job][fingerprint] = Seen(from_millis(first), from_millis(last))
        for job, (name, floor, newest, fence) in found.items():
            self.put(
                name,
                JobRecord(from_millis(floor), from_millis(newest), fence, seen[job], runs[job]),
            )

    def load_past(self, job: str, up_to: datetime) -> None:
        """Load the runs of a job up to a slot, too."""
        key = (self._ids[job], to_millis(up_to))
        found = self._connection.execute(
            f"select {rows.RUN} from anarchon_run where job = ? and slot <= ?", key
        )
        self.put_past(job, map(rows.run_of, found))

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
        changes = self.changes()
        for job, record in changes.made.items():
            made = self._connection.execute(
                "insert into anarchon_job (namespace, name, floor, newest, fence)"
                " values (?, ?, ?, ?, ?)",
                (self._namespace, job, *rows.row_of_record(record)),
            )
            assert made.lastrowid is not None
            self._ids[job] = made.lastrowid
        ids = self._ids
        self._write(
            "update anarchon_job set floor = ?, newest = ?, fence = ? where id = ?",
            [(*rows.row_of_record(record), ids[job]) for job, record in changes.moved.items()],
        )
        self._write(
            f"replace into anarchon_fingerprint ({rows.FINGERPRINT}) values ({{marks}})",
            [(ids[job], name, *rows.row_of_seen(seen)) for job, name, seen in changes.noted],
        )
        self._write(
            "delete from anarchon_fingerprint where job = ? and fingerprint = ?",
            [(ids[job], name) for job, name in changes.forgotten],
        )
        self._write(
            f"replace into anarchon_run ({rows.RUN}) values ({{marks}})",
            [(ids[job], *rows.row_of_run(run)) for job, run in changes.runs],
        )
        gone: list[rows.Row] = [(ids[job], to_millis(slot)) for job, slot in changes.gone]
        self._write("delete from anarchon_run where job = ? and slot = ?", gone)
        self._write("delete from anarchon_attempt where job = ? and slot = ?", gone)
        self._write(
            f"insert into anarchon_attempt ({rows.ATTEMPT}) values ({{marks}})"
            f" {rows.ATTEMPT_GOES_ON}",
            [(ids[a.job], *rows.row_of_attempt(a)) for a in changes.attempts],
        )

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
