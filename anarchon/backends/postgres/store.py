"""The calls of the port, as calls of the functions that the migrations install."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

from anarchon.backends.postgres.session import Session
from anarchon.backends.postgres.settings import Settings
from anarchon.clock import from_millis, to_millis
from anarchon.run import Attempt, RunState
from anarchon.store import (
    FINGERPRINT_MEMORY,
    RETENTION,
    Begin,
    Claim,
    ClaimAnswer,
    Finish,
    KnownJob,
    Outcome,
    Prune,
    Registration,
    Release,
    Renewal,
    Reply,
    Unfinished,
    Waiting,
)

if TYPE_CHECKING:
    from asyncpg import Record

Q = TypeVar("Q")
A = TypeVar("A")

MICROSECOND = timedelta(microseconds=1)
#: Longer ones are as good as this: what a double holds exactly, 285 years.
_LONGEST = 2**53


class PostgresStore:
    """One connection to one namespace of a schema; see ``anarchon.store.LeaseStore``."""

    def __init__(self, settings: Settings, namespace: str) -> None:
        self.label = settings.label
        self._schema = settings.quoted_schema
        self._namespace = namespace
        self._session = Session(settings)

    def __repr__(self) -> str:
        return f"<PostgresStore: {self._namespace} in {self.label}>"

    async def open(self) -> None:
        await self._session.connect()

    async def close(self) -> None:
        await self._session.close()

    async def claim(self, claims: Sequence[Claim]) -> Reply[ClaimAnswer]:
        return await self._ask(
            "claim($1, $2, $3::text[]::bigint[], $4, $5, $6, $7::text[]::bigint[], $8,"
            " $9::text[]::bigint[], $10, $11::text[]::bigint[], $12::text[]::bigint[],"
            " $13::text[]::bigint[])",
            claims,
            lambda claim: (
                claim.job,
                _millis(claim.slot),
                claim.token,
                claim.mode,
                claim.instance,
                _micros(claim.terms.lease),
                claim.terms.overlap,
                str(claim.terms.max_attempts),
                claim.terms.begins_as,
                _micros(claim.within),
                None if claim.terms.start_within is None else _micros(claim.terms.start_within),
                None if claim.after is None else _millis(claim.after),
            ),
            _claim_answer,
            "ord, clock, outcome, attempt, fence, lease, holder, blocker, waits, start_by",
        )

    async def renew(self, renewals: Sequence[Renewal]) -> Reply[bool]:
        return await self._ask(
            "renew($1, $2, $3::text[]::bigint[], $4, $5, $6::text[]::boolean[], $7,"
            " $8::text[]::bigint[], $9::text[]::bigint[])",
            renewals,
            lambda renewal: (*_run_and_token(renewal), renewal.holder, *_mark(renewal.waiting)),
            _yes_or_no,
        )

    async def begin(self, begins: Sequence[Begin]) -> Reply[bool]:
        return await self._ask(
            "begin($1, $2, $3::text[]::bigint[], $4, $5::text[]::bigint[], $6, $7, $8)",
            begins,
            lambda begin: (
                *_run_and_token(begin),
                str(begin.retry),
                begin.nonce,
                begin.holder,
                begin.message,
            ),
            _yes_or_no,
        )

    async def finish(self, finishes: Sequence[Finish]) -> Reply[bool]:
        return await self._ask(
            "finish($1, $2, $3::text[]::bigint[], $4, $5, $6, $7)",
            finishes,
            lambda finish: (
                *_run_and_token(finish),
                finish.state,
                _storable(finish.detail),
                finish.nonce,
            ),
            _yes_or_no,
        )

    async def release(self, releases: Sequence[Release]) -> Reply[bool]:
        return await self._ask(
            "release($1, $2, $3::text[]::bigint[], $4, $5::text[]::boolean[])",
            releases,
            lambda release: (*_run_and_token(release), str(release.begun)),
            _yes_or_no,
        )

    async def active(self, jobs: Sequence[Registration]) -> Reply[KnownJob]:
        return await self._ask(
            f"active($1, $2, $3, {_micros(FINGERPRINT_MEMORY)})",
            jobs,
            lambda job: (job.job, job.fingerprint),
            _known_job,
            "ord, clock, first_seen, newest, others, unfinished",
        )

    async def history(self, jobs: Sequence[str], limit: int) -> Reply[Attempt]:
        first, *rows = await self._session.ask(
            f"select * from {self._schema}.history($1, $2, $3)", self._namespace, list(jobs), limit
        )
        return Reply(first["clock"], tuple(_attempt(row) for row in rows))

    async def prune(self, prunes: Sequence[Prune]) -> Reply[int]:
        rows = await self._session.ask(
            f"select * from {self._schema}.prune($1, $2, $3::text[]::bigint[],"
            f" $4::text[]::bigint[], {_micros(RETENTION)})",
            self._namespace,
            [asked.job for asked in prunes],
            [str(asked.keep) for asked in prunes],
            [_micros(asked.spare) for asked in prunes],
        )
        time = rows[-1]["clock"] if rows else await self._tell_time()
        return Reply(time, tuple(row["answer"] for row in rows))

    async def _ask(
        self,
        call: str,
        questions: Sequence[Q],
        columns: Callable[[Q], Iterable[str | None]],
        read: Callable[[Record], A],
        answer: str = "ord, clock, answer",
    ) -> Reply[A]:
        """Call a function with one array an attribute; its rows come in any order."""
        if not questions:
            return Reply(await self._tell_time(), ())
        arrays = zip(*(columns(question) for question in questions), strict=True)
        rows = await self._session.ask(
            f"select {answer} from {self._schema}.{call}", self._namespace, *map(list, arrays)
        )
        # a claim is judged twice at most, and the rows of the second time come last
        time = rows[-1]["clock"]
        rows.sort(key=lambda row: int(row["ord"]))
        return Reply(time, tuple(map(read, rows)))

    async def _tell_time(self) -> datetime:
        (row,) = await self._session.ask(f"select {self._schema}.tell_time() as clock")
        time: datetime = row["clock"]
        return time


def _run_and_token(question: Renewal | Begin | Finish | Release) -> tuple[str, str, str]:
    return question.job, _millis(question.slot), question.token


def _mark(waiting: Waiting | None) -> tuple[str, str | None, str | None, str | None]:
    if waiting is None:
        return "false", None, None, None
    return "true", waiting.nonce, str(waiting.retry), _micros(waiting.delay)


# Arrays of numbers go out as text: for another type of array the driver would first ask the
# server what it is, on each new connection.
def _millis(moment: datetime) -> str:
    return str(to_millis(moment))


def _micros(duration: timedelta) -> str:
    return str(max(-_LONGEST, min(duration // MICROSECOND, _LONGEST)))


def _storable(detail: str | None) -> str | None:
    """Replace what PostgreSQL keeps in no text; an odd message must not keep a run from ending."""
    if detail is None:
        return None
    return detail.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def _yes_or_no(row: Record) -> bool:
    answer: bool = row["answer"]
    return answer


def _claim_answer(row: Record) -> ClaimAnswer:
    lease = row["lease"]
    return ClaimAnswer(
        Outcome(row["outcome"]),
        attempt=row["attempt"],
        fence=row["fence"],
        lease=None if lease is None else lease * MICROSECOND,
        holder=row["holder"],
        blocker=row["blocker"],
        waits=row["waits"],
        start_by=row["start_by"],
    )


def _known_job(row: Record) -> KnownJob:
    return KnownJob(
        row["first_seen"],
        row["newest"],
        tuple((other, from_millis(seen)) for other, seen in json.loads(row["others"] or "[]")),
        tuple(
            Unfinished(from_millis(slot), attempt, busy, holder)
            for slot, attempt, busy, holder in json.loads(row["unfinished"] or "[]")
        ),
    )


def _attempt(row: Record) -> Attempt:
    return Attempt(
        job=row["job"],
        slot=row["slot"],
        attempt=row["attempt"],
        state=RunState(row["state"]),
        instance=row["instance"],
        fence=row["fence"],
        started=row["started"],
        ended=row["ended"],
        detail=row["detail"],
        worker=row["worker"],
        message=row["message"],
        begun=row["begun"],
    )
