"""What a look asks for, and the records that it finds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from anarchon.backends.libsql.pipeline import AT_THE_PRIMARY, Rows, Step, after
from anarchon.backends.sqlrecords import rows
from anarchon.backends.sqlrecords.record_set import RecordSet
from anarchon.clock import MILLISECOND, from_millis, to_millis
from anarchon.record import JobRecord, Run, Seen
from anarchon.store import RETENTION, Prune

NOW = "(select millis from anarchon_clock)"

_RETENTION = RETENTION // MILLISECOND
#: Runs of the past that one look brings along: an answer has a largest size.
_MOST_PAST = 5000


def _of(table: str, columns: str) -> str:
    return ", ".join(f"{table}.{column}" for column in columns.split(", "))


# Keys come as one JSON array, in which a row is an array; so do rows go back, as one column. The
# joins are crossed, so that they keep their order: the keys first, then the tables by an index.
_JOB = "cross join anarchon_job j on j.namespace = ?1 and j.name = "
_JOBS = f"from json_each(?2) k {_JOB} k.value"
# the condition is word for word that of the index; left alone, SQLite reads all runs of a job
_UNFINISHED = "anarchon_run r indexed by anarchon_unfinished"
_IS_UNFINISHED = "state in ('claimed', 'queued', 'running')"
_RUN = _of("r", rows.RUN)

_RECORDS = f"select json_array(j.id, j.name, j.revision, j.floor, j.newest, j.fence) {_JOBS}"
_TIME = f"select {NOW}"
_OPEN_RUNS = (
    f"select json_array({_RUN}) {_JOBS} cross join {_UNFINISHED} on r.job = j.id"
    f" where {_IS_UNFINISHED}"
)
_RUNS = (
    f"select json_array({_RUN}) from json_each(?2) k {_JOB} k.value ->> 0"
    " cross join anarchon_run r on r.job = j.id and r.slot = k.value ->> 1"
)
_FINGERPRINTS = (
    f"select json_array({_of('f', rows.FINGERPRINT)}) {_JOBS}"
    " cross join anarchon_fingerprint f on f.job = j.id"
)

# of each job the slot of the newest attempt that there is no room for
_SURPLUS = (
    "(select slot from anarchon_attempt where job = j.id order by slot desc limit 1 offset ?3)"
)
_SURPLUSES = f"select json_array(j.name, ?3, {_SURPLUS}) from json_each(?2) k {_JOB} k.value ->> 0"
# how far is decided by the rules, at a time that is no later than this one
_PAST = (
    "with asked (of_job, up_to) as materialized (select j.id,"
    f" min(max(coalesce({_SURPLUS}, 0), {NOW} - {_RETENTION}), {NOW} - (k.value ->> 1))"
    f" from json_each(?2) k {_JOB} k.value ->> 0)"
    " select json_array((select count(*) from anarchon_attempt a"
    f" where a.job = r.job and a.slot = r.slot), {_RUN})"
    " from asked cross join anarchon_run r on r.job = of_job and r.slot <= up_to"
    f" where not {_IS_UNFINISHED} order by r.slot limit {_MOST_PAST}"
)

OLD = (
    f"select distinct json_array(j.name) from {_UNFINISHED}"
    " cross join anarchon_job j on j.id = r.job"
    f" where {_IS_UNFINISHED} and r.slot < {NOW} - {_RETENTION} and j.namespace = ?1"
)
HISTORY = (
    f"select json_array(j.name, {_of('a', rows.ATTEMPT)}) {_JOBS}"
    " cross join anarchon_attempt a on a.job = j.id"
    # what is older than its job's own limit cannot be among the newest of all
    " where a.slot >= coalesce((select slot from anarchon_attempt where job = j.id"
    " order by slot desc limit 1 offset ?3), 0)"
    " order by a.slot desc, a.attempt desc, j.name desc limit ?3"
)


@dataclass(frozen=True, slots=True)
class Origin:
    """The row that a record came from; ``revision`` is as it was then."""

    id: int
    revision: str


class Records(RecordSet):
    """What one look found; of some jobs the past, too."""

    def __init__(self, time: datetime) -> None:
        super().__init__(time)
        self.origins: dict[str, Origin] = {}
        self.surplus: dict[tuple[str, int], datetime | None] = {}
        self.attempts_of: dict[tuple[str, datetime], int] = {}


class Look:
    """One read transaction: jobs with their unfinished runs, and what else is asked for."""

    def __init__(self, namespace: str, jobs: Iterable[str]) -> None:
        self._namespace = namespace
        self._jobs = array_of(dict.fromkeys(jobs))
        # the time after the first rows, which choose the state that is seen: it is no older
        # than anything in it
        self._asked: list[tuple[str, tuple[str | int, ...]]] = [
            (_RECORDS, (namespace, self._jobs)),
            (_TIME, ()),
            (_OPEN_RUNS, (namespace, self._jobs)),
        ]
        self._of_runs = [2]
        self._of_past: list[int] = []
        self._of_surplus: list[int] = []
        self._of_fingerprints: list[int] = []

    def with_runs(self, slots: Iterable[tuple[str, datetime]]) -> Look:
        """Ask for the runs of these slots, whatever their state."""
        keys = array_of([job, to_millis(slot)] for job, slot in slots)
        self._ask(self._of_runs, _RUNS, keys)
        return self

    def with_fingerprints(self) -> Look:
        """Ask for the fingerprints of the jobs."""
        self._ask(self._of_fingerprints, _FINGERPRINTS, self._jobs)
        return self

    def with_past(self, prunes: Sequence[Prune]) -> Look:
        """Ask for the runs that may go, and the attempts that would go with each."""
        for keep in dict.fromkeys(asked.keep for asked in prunes):
            keys = array_of(
                [asked.job, asked.spare // MILLISECOND] for asked in prunes if asked.keep == keep
            )
            self._ask(self._of_surplus, _SURPLUSES, keys, keep)
            self._ask(self._of_past, _PAST, keys, keep)
        return self

    def _ask(self, kind: list[int], sql: str, keys: str, *more: int) -> None:
        kind.append(len(self._asked))
        self._asked.append((sql, (self._namespace, keys, *more)))

    @property
    def steps(self) -> list[Step]:
        return reading(*self._asked)

    def records(self, answer: Sequence[Rows]) -> Records:
        """Make the records of what the batch answered."""
        found = read(answer)
        records = Records(from_millis(found[1][0]))
        runs: dict[int, dict[datetime, Run]] = {row[0]: {} for row in found[0]}
        seen: dict[int, dict[str, Seen]] = {row[0]: {} for row in found[0]}
        for number in self._of_runs:
            for row in found[number]:
                run = rows.run_of(row)
                runs[row[0]][run.slot] = run
        for number in self._of_fingerprints:
            for job, fingerprint, first, last in found[number]:
                seen[job][fingerprint] = Seen(from_millis(first), from_millis(last))
        for job, name, revision, floor, newest, fence in found[0]:
            records.origins[name] = Origin(job, revision)
            records.put(
                name,
                JobRecord(from_millis(floor), from_millis(newest), fence, seen[job], runs[job]),
            )
        self._read_past(records, found, {row[0]: row[1] for row in found[0]})
        return records

    def _read_past(self, records: Records, found: list[Any], names: dict[int, str]) -> None:
        for number in self._of_surplus:
            for name, keep, slot in found[number]:
                records.surplus[name, keep] = None if slot is None else from_millis(slot)
        for number in self._of_past:
            for count, *row in found[number]:
                run, name = rows.run_of(tuple(row)), names[row[0]]
                records.put_past(name, [run])
                records.attempts_of[name, run.slot] = count


def reading(*asked: tuple[str, tuple[str | int, ...]]) -> list[Step]:
    """Return a batch that sees one state, which is that of the primary."""
    steps = [Step(sql, values, after(number)) for number, (sql, values) in enumerate(asked)]
    return [Step("begin"), *steps, AT_THE_PRIMARY, Step("commit", when=after(len(steps)))]


def read(answer: Sequence[Rows]) -> list[list[Any]]:
    """Return what each query of such a batch answered, one value a row."""
    return [
        [json.loads(value) if isinstance(value, str) else value for (value,) in found]
        for found in answer[1:-2]
    ]


def array_of(keys: Iterable[object]) -> str:
    """Return keys as a statement takes them."""
    return json.dumps(list(keys), ensure_ascii=False, separators=(",", ":"))
