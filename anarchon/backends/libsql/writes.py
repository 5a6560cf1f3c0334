"""The write that follows a look: of each job all that changed, if nobody wrote it in between."""

from __future__ import annotations

from collections.abc import Sequence

from anarchon.backends.libsql.looks import NOW, Records, array_of
from anarchon.backends.libsql.pipeline import Rows, Step, transaction
from anarchon.backends.sqlrecords import rows
from anarchon.backends.sqlrecords.record_set import Changes
from anarchon.clock import to_millis

#: For how long after its look a write counts, in milliseconds of the server's clock: what was
#: decided holds for as long as it may then be late.
FRESH = 2000

_IS_FRESH = f"{NOW} between ?3 and ?3 + {FRESH}"
_MAKE = (
    "insert into anarchon_job (namespace, name, floor, newest, fence, revision)"
    " select ?1, value ->> 0, value ->> 1, value ->> 2, value ->> 3, ?2 from json_each(?4)"
    f" where {_IS_FRESH} on conflict (namespace, name) do nothing"
)
_TOUCH = (
    "update anarchon_job set floor = value ->> 2, newest = value ->> 3, fence = value ->> 4,"
    " revision = ?2 from json_each(?4)"
    " where namespace = ?1 and anarchon_job.id = value ->> 0 and revision = value ->> 1"
    f" and {_IS_FRESH}"
)
# the jobs of the rows below, as far as they are of our revision now
_OURS = (
    "from json_each(?3) cross join anarchon_job j"
    " on namespace = ?1 and name = value ->> 0 and revision = ?2"
)


def _columns(columns: str) -> str:
    """Return what stands in the place of all columns but the job's."""
    return ", ".join(f"value ->> {number}" for number in range(1, columns.count(",") + 1))


_NOTE = (
    f"replace into anarchon_fingerprint ({rows.FINGERPRINT})"
    f" select j.id, {_columns(rows.FINGERPRINT)} {_OURS}"
)
_KEYS = f"(select j.id, value ->> 1 {_OURS})"
_RUN = f"replace into anarchon_run ({rows.RUN}) select j.id, {_columns(rows.RUN)} {_OURS}"
_ATTEMPT = (
    f"insert into anarchon_attempt ({rows.ATTEMPT})"
    f" select j.id, {_columns(rows.ATTEMPT)} {_OURS} where true {rows.ATTEMPT_GOES_ON}"
)
_WRITTEN = (
    "select name from json_each(?3) cross join anarchon_job"
    " on namespace = ?1 and name = value and revision = ?2"
)


class Write:
    """What changed since a look, as a batch that writes it under a new revision."""

    def __init__(self, namespace: str, records: Records, revision: str) -> None:
        self._changes = records.changes()
        self._jobs = [*self._changes.made, *self._changes.touched]
        ours = namespace, revision
        looked = to_millis(records.time)
        self.steps = transaction(
            [
                *(
                    Step(sql, (*ours, looked, array_of(keys)))
                    for sql, keys in _of_jobs(self._changes, records)
                    if keys
                ),
                *(
                    Step(sql, (*ours, array_of(keys)))
                    for sql, keys in _of_rows(self._changes)
                    if keys
                ),
                Step(_WRITTEN, (*ours, array_of(self._jobs))),
            ]
        )

    @property
    def commit(self) -> int:
        """The number of the step after which it is written."""
        return len(self.steps) - 2

    def left_alone(self, answer: Sequence[Rows]) -> set[str]:
        """Return the jobs that were written by somebody else, or not in time."""
        return set(self._jobs) - {name for (name,) in answer[self.commit - 1]}


def _of_jobs(changes: Changes, records: Records) -> list[tuple[str, list[list[object]]]]:
    made: list[list[object]] = [
        [name, *rows.row_of_record(record)] for name, record in changes.made.items()
    ]
    touched: list[list[object]] = []
    for name, record in changes.touched.items():
        origin = records.origins[name]
        touched.append([origin.id, origin.revision, *rows.row_of_record(record)])
    return [(_MAKE, made), (_TOUCH, touched)]


def _of_rows(changes: Changes) -> list[tuple[str, list[list[object]]]]:
    gone: list[list[object]] = [[job, to_millis(slot)] for job, slot in changes.gone]
    return [
        (_NOTE, [[job, name, *rows.row_of_seen(seen)] for job, name, seen in changes.noted]),
        (
            f"delete from anarchon_fingerprint where (job, fingerprint) in {_KEYS}",
            [[job, name] for job, name in changes.forgotten],
        ),
        (_RUN, [[job, *rows.row_of_run(run)] for job, run in changes.runs]),
        (f"delete from anarchon_run where (job, slot) in {_KEYS}", gone),
        (f"delete from anarchon_attempt where (job, slot) in {_KEYS}", gone),
        (_ATTEMPT, [[a.job, *rows.row_of_attempt(a)] for a in changes.attempts]),
    ]
