"""The port, on a SQLite file: each call one transaction, in which the rules run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeVar

from anarchon import rules, tracked
from anarchon.backends.sqlite.database import Database
from anarchon.backends.sqlite.records import Records
from anarchon.backends.sqlite.thread import ForkedAway, OwnThread
from anarchon.clock import from_millis, to_millis
from anarchon.errors import StoreError
from anarchon.record import JobRecord, Step
from anarchon.run import Attempt
from anarchon.store import (
    RETENTION,
    Begin,
    Claim,
    ClaimAnswer,
    Finish,
    KnownJob,
    Prune,
    Registration,
    Release,
    Renewal,
    Reply,
)

Q = TypeVar("Q", Claim, Renewal, Begin, Finish, Release)
A = TypeVar("A")
T = TypeVar("T")

#: Jobs that are pruned in one transaction; a first pruning of them all could lock the file
#: for longer than others wait.
_PORTION = 20


class SQLiteStore:
    """One connection to the file, on a thread of its own; see ``anarchon.store.LeaseStore``.

    A store must be opened in the process that uses it: neither threads nor SQLite's locks
    come along into a fork.
    """

    def __init__(self, database: Database, namespace: str, now: Callable[[], datetime]) -> None:
        self.label = database.label
        self._database = database
        self._namespace = namespace
        self._now = now
        self._thread = OwnThread()

    def __repr__(self) -> str:
        return f"<SQLiteStore {self.label}: {self._namespace}>"

    async def open(self) -> None:
        await self._call(self._database.open)

    async def close(self) -> None:
        await self._thread.end(self._database.close)

    async def claim(self, claims: Sequence[Claim]) -> Reply[ClaimAnswer]:
        def work(records: Records) -> list[ClaimAnswer]:
            return _run(records, rules.claim, claims, make=JobRecord.made_by)

        return await self._call(lambda: self._look_then_write(work))

    async def renew(self, renewals: Sequence[Renewal]) -> Reply[bool]:
        return await self._call(
            lambda: self._write(lambda records: _run(records, rules.renew, renewals))
        )

    async def begin(self, begins: Sequence[Begin]) -> Reply[bool]:
        return await self._call(
            lambda: self._write(lambda records: _run(records, tracked.begin, begins))
        )

    async def finish(self, finishes: Sequence[Finish]) -> Reply[bool]:
        return await self._call(
            lambda: self._write(lambda records: _run(records, rules.finish, finishes))
        )

    async def release(self, releases: Sequence[Release]) -> Reply[bool]:
        return await self._call(
            lambda: self._write(lambda records: _run(records, rules.release, releases))
        )

    async def active(self, jobs: Sequence[Registration]) -> Reply[KnownJob]:
        def work(records: Records) -> list[KnownJob]:
            return _register(records, jobs)

        return await self._call(lambda: self._write(work) if jobs else self._look(work))

    async def history(self, jobs: Sequence[str], limit: int) -> Reply[Attempt]:
        def work(records: Records) -> list[Attempt]:
            return _newest(records, jobs, limit)

        return await self._call(lambda: self._look(work))

    async def prune(self, prunes: Sequence[Prune]) -> Reply[int]:
        gone: list[int] = []
        for start in range(0, len(prunes), _PORTION):
            some = prunes[start : start + _PORTION]
            gone += (await self._prune(some)).answers
        return Reply((await self._call(lambda: self._look_then_write(_forget))).time, tuple(gone))

    async def _prune(self, prunes: Sequence[Prune]) -> Reply[int]:
        return await self._call(
            lambda: self._look_then_write(lambda records: _prune(records, prunes))
        )

    async def _call(self, call: Callable[[], T]) -> T:
        try:
            return await self._thread.run(call)
        except ForkedAway:
            problem = "opened before a fork: connect and open a store in each process"
            raise StoreError(self.label, problem) from None

    def _look(self, work: Callable[[Records], Sequence[A]]) -> Reply[A]:
        with self._database.reading() as connection:
            records = Records(connection, self._namespace, self._time())
            return Reply(records.time, tuple(work(records)))

    def _write(self, work: Callable[[Records], Sequence[A]]) -> Reply[A]:
        with self._database.writing() as connection:
            records = Records(connection, self._namespace, self._time())
            answers = tuple(work(records))
            records.save()
        return Reply(records.time, answers)

    def _look_then_write(self, work: Callable[[Records], Sequence[A]]) -> Reply[A]:
        # whoever loses then waits for nobody; what others do between the two counts as well
        with self._database.reading() as connection:
            records = Records(connection, self._namespace, self._time())
            answers = tuple(work(records))
        return self._write(work) if records.changed else Reply(records.time, answers)

    def _time(self) -> datetime:
        # a moment read back from the file equals the one answered
        return from_millis(to_millis(self._now()))


def _run(
    records: Records,
    rule: Callable[[JobRecord, Q, datetime], Step[A]],
    questions: Sequence[Q],
    *,
    make: Callable[[Q, datetime], JobRecord] | None = None,
) -> list[A]:
    records.load(
        (asked.job for asked in questions), [(asked.job, asked.slot) for asked in questions]
    )
    return records.answers(rule, questions, make=make)


def _register(records: Records, jobs: Sequence[Registration]) -> list[KnownJob]:
    records.load((asked.job for asked in jobs), fingerprints=True)
    return records.answers(rules.register, jobs, make=JobRecord.made_by)


def _newest(records: Records, jobs: Sequence[str], limit: int) -> list[Attempt]:
    records.load(jobs)
    newest = [
        attempt
        for job in dict.fromkeys(jobs)
        if records.get(job) is not None
        for attempt in records.newest_attempts(job, limit)
    ]
    newest.sort(key=lambda attempt: (attempt.slot, attempt.attempt, attempt.job), reverse=True)
    return newest[:limit]


def _prune(records: Records, prunes: Sequence[Prune]) -> list[int]:
    records.load(asked.job for asked in prunes)
    gone = []
    for asked in prunes:
        record = records.get(asked.job)
        if record is None:
            gone.append(0)
            continue
        up_to = rules.prune_up_to(asked, records.surplus(asked.job, asked.keep), records.time)
        records.load_past(asked.job, up_to)
        step = rules.prune(records.get(asked.job) or record, up_to)
        records.apply(asked.job, step)
        gone.append(records.count_attempts(asked.job, step.answer))
    return gone


def _forget(records: Records) -> tuple[()]:
    for job in records.load_unfinished_before(records.time - RETENTION):
        record = records.get(job)
        assert record is not None, "it was just loaded"
        records.apply(job, rules.forget(job, record, records.time))
    return ()
