"""The port, on a libSQL server: each call a look, the rules, and a write if anything changed."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

from anarchon import rules, tracked
from anarchon.backends.libsql.looks import (
    HISTORY,
    NOW,
    OLD,
    Look,
    Records,
    array_of,
    read,
    reading,
)
from anarchon.backends.libsql.session import Session
from anarchon.backends.libsql.settings import Settings
from anarchon.backends.libsql.writes import Write
from anarchon.backends.sqlrecords import rows
from anarchon.clock import from_millis
from anarchon.errors import OutcomeUnknown, StoreUnavailable
from anarchon.record import JobRecord, Step
from anarchon.run import Attempt
from anarchon.store import (
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


class _Question(Protocol):
    @property
    def job(self) -> str: ...


Q = TypeVar("Q", bound=_Question)
R = TypeVar("R", Claim, Renewal, Begin, Finish, Release)
A = TypeVar("A")

#: Jobs that are pruned in one write, so that none holds the only lock for long.
_PORTION = 20


@dataclass(frozen=True, slots=True)
class _Old:
    """A job with runs that are to be given up."""

    job: str


class LibSQLStore:
    """One namespace of a database; see ``anarchon.store.LeaseStore``."""

    def __init__(self, settings: Settings, namespace: str) -> None:
        self.label = settings.label
        self._namespace = namespace
        self._session = Session(settings)

    def __repr__(self) -> str:
        return f"<LibSQLStore: {self._namespace} in {self.label}>"

    async def open(self) -> None:
        await self._session.connect()

    async def close(self) -> None:
        await self._session.close()

    async def claim(self, claims: Sequence[Claim]) -> Reply[ClaimAnswer]:
        return await self._decide_runs(rules.claim, claims, make=JobRecord.made_by)

    async def renew(self, renewals: Sequence[Renewal]) -> Reply[bool]:
        return await self._decide_runs(rules.renew, renewals)

    async def begin(self, begins: Sequence[Begin]) -> Reply[bool]:
        return await self._decide_runs(tracked.begin, begins)

    async def finish(self, finishes: Sequence[Finish]) -> Reply[bool]:
        return await self._decide_runs(rules.finish, finishes)

    async def release(self, releases: Sequence[Release]) -> Reply[bool]:
        return await self._decide_runs(rules.release, releases)

    async def active(self, jobs: Sequence[Registration]) -> Reply[KnownJob]:
        def work(records: Records, asked: Sequence[Registration]) -> list[KnownJob]:
            return records.answers(rules.register, asked, make=JobRecord.made_by)

        return await self._decide(jobs, lambda asked: self._look(asked).with_fingerprints(), work)

    async def history(self, jobs: Sequence[str], limit: int) -> Reply[Attempt]:
        names = array_of(dict.fromkeys(jobs))
        found, (time,) = read(
            await self._session.look(
                reading((HISTORY, (self._namespace, names, limit)), (f"select {NOW}", ()))
            )
        )
        attempts = (rows.attempt_of(name, tuple(row)) for name, *row in found)
        return Reply(from_millis(time), tuple(attempts))

    async def prune(self, prunes: Sequence[Prune]) -> Reply[int]:
        gone: list[int] = []
        for start in range(0, len(prunes), _PORTION):
            some = prunes[start : start + _PORTION]
            reply = await self._decide(
                some, lambda asked: self._look(asked).with_past(asked), _prune
            )
            gone += reply.answers
        (old,) = read(await self._session.look(reading((OLD, (self._namespace,)))))
        forgotten = await self._decide([_Old(name) for (name,) in old], self._look, _forget)
        return Reply(forgotten.time, tuple(gone))

    async def _decide_runs(
        self,
        rule: Callable[[JobRecord, R, datetime], Step[A]],
        questions: Sequence[R],
        *,
        make: Callable[[R, datetime], JobRecord] | None = None,
    ) -> Reply[A]:
        def look(asked: Sequence[R]) -> Look:
            return self._look(asked).with_runs((one.job, one.slot) for one in asked)

        def work(records: Records, asked: Sequence[R]) -> list[A]:
            return records.answers(rule, asked, make=make)

        return await self._decide(questions, look, work)

    def _look(self, questions: Sequence[_Question]) -> Look:
        return Look(self._namespace, (asked.job for asked in questions))

    async def _decide(
        self,
        questions: Sequence[Q],
        look: Callable[[Sequence[Q]], Look],
        work: Callable[[Records, Sequence[Q]], list[A]],
    ) -> Reply[A]:
        """Look, work and write, again for the jobs that others wrote in between."""
        answers: dict[int, A] = {}
        left = list(range(len(questions)))
        wrote = False
        while True:
            asked = [questions[number] for number in left]
            try:
                looked = look(asked)
                records = looked.records(await self._session.look(looked.steps))
                answers.update(zip(left, work(records, asked), strict=True))
                again = await self._write(records) if records.changed else set()
            except StoreUnavailable as error:
                if wrote:
                    raise OutcomeUnknown(error.store, error.problem) from error
                raise
            left = [number for number in left if questions[number].job in again]
            if not left:
                return Reply(records.time, tuple(answers[n] for n in range(len(questions))))
            wrote = True

    async def _write(self, records: Records) -> set[str]:
        """Write what changed; return the jobs that were not to be written."""
        write = Write(self._namespace, records, revision=secrets.token_hex(8))
        return write.left_alone(await self._session.write(write.steps, write.commit))


def _prune(records: Records, prunes: Sequence[Prune]) -> list[int]:
    gone = []
    for asked in prunes:
        record = records.get(asked.job)
        if record is None:
            gone.append(0)
            continue
        up_to = rules.prune_up_to(asked, records.surplus[asked.job, asked.keep], records.time)
        step = rules.prune(record, up_to)
        records.apply(asked.job, step)
        gone.append(sum(records.attempts_of[asked.job, slot] for slot in step.answer))
    return gone


def _forget(records: Records, jobs: Sequence[_Old]) -> list[None]:
    for asked in jobs:
        record = records.get(asked.job)
        if record is not None:
            records.apply(asked.job, rules.forget(asked.job, record, records.time))
    return [None] * len(jobs)
