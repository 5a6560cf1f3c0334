"""The questions of the port as commands, and the replies as its answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from anarchon.backends.redis import replies, scripts
from anarchon.backends.redis.connection import Command, Link
from anarchon.backends.redis.keys import Keys
from anarchon.backends.redis.scripts import Script
from anarchon.clock import MILLISECOND, from_millis, to_millis
from anarchon.run import Attempt
from anarchon.store import (
    FINGERPRINT_MEMORY,
    RETENTION,
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

A = TypeVar("A")

_RETENTION = RETENTION // MILLISECOND
_FINGERPRINT_MEMORY = FINGERPRINT_MEMORY // MILLISECOND
_PIECE = 500


class RedisStore:
    """One namespace on the server; see ``anarchon.store.LeaseStore``."""

    def __init__(self, link: Link, keys: Keys) -> None:
        self._link = link
        self._keys = keys

    def __repr__(self) -> str:
        return f"<RedisStore: {self.label}>"

    @property
    def label(self) -> str:
        return self._link.label

    async def open(self) -> None:
        await self._link.open()

    async def close(self) -> None:
        await self._link.close()

    async def claim(self, claims: Sequence[Claim]) -> Reply[ClaimAnswer]:
        calls = [
            self._call(
                scripts.CLAIM,
                asked.job,
                to_millis(asked.slot),
                asked.token,
                asked.mode,
                asked.instance,
                asked.terms.lease // MILLISECOND,
                asked.terms.overlap,
                asked.terms.max_attempts,
                asked.terms.begins_as,
                asked.within // MILLISECOND,
            )
            for asked in claims
        ]
        listed = self._list("LT", ((asked.job, to_millis(asked.slot)) for asked in claims))
        return await self._ask(calls, replies.claim_answer, first=listed)

    async def renew(self, renewals: Sequence[Renewal]) -> Reply[bool]:
        calls = [
            self._call(scripts.RENEW, asked.job, to_millis(asked.slot), asked.token)
            for asked in renewals
        ]
        return await self._ask(calls, replies.yes_or_no)

    async def finish(self, finishes: Sequence[Finish]) -> Reply[bool]:
        calls = [
            self._call(
                scripts.FINISH,
                asked.job,
                to_millis(asked.slot),
                asked.token,
                asked.state,
                *(() if asked.detail is None else (asked.detail,)),
            )
            for asked in finishes
        ]
        return await self._ask(calls, replies.yes_or_no)

    async def release(self, releases: Sequence[Release]) -> Reply[bool]:
        calls = [
            self._call(
                scripts.RELEASE, asked.job, to_millis(asked.slot), asked.token, int(asked.begun)
            )
            for asked in releases
        ]
        return await self._ask(calls, replies.yes_or_no)

    async def active(self, jobs: Sequence[Registration]) -> Reply[KnownJob]:
        calls = [
            self._call(scripts.REGISTER, asked.job, asked.fingerprint, _FINGERPRINT_MEMORY)
            for asked in jobs
        ]
        # whatever lies there from before a listing that was lost is looked at once
        listed = self._list("NX", ((asked.job, 0) for asked in jobs))
        return await self._ask(calls, replies.known_job, first=listed)

    async def history(self, jobs: Sequence[str], limit: int) -> Reply[Attempt]:
        names = list(dict.fromkeys(jobs)) if limit > 0 else []
        calls = [self._call(scripts.HISTORY, job, limit) for job in names]
        reply = await self._ask(calls, replies.rows)
        kept = [
            replies.attempt(job, row)
            for job, rows in zip(names, reply.answers, strict=True)
            for row in rows
        ]
        kept.sort(key=lambda a: (a.slot, a.attempt, a.job), reverse=True)
        return Reply(reply.time, tuple(kept[:limit]))

    async def prune(self, prunes: Sequence[Prune]) -> Reply[int]:
        calls = [
            self._call(scripts.PRUNE, asked.job, asked.keep, asked.spare // MILLISECOND, _RETENTION)
            for asked in prunes
        ]
        reply = await self._ask(calls, replies.count)
        await self._forget(to_millis(reply.time))
        return reply

    async def _forget(self, time: int) -> None:
        before = f"({time - _RETENTION}"
        (jobs,) = await self._link.ask([("ZRANGE", self._keys.jobs, "-inf", before, "BYSCORE")])
        for start in range(0, len(jobs), _PIECE):
            some = jobs[start : start + _PIECE]
            heard = await self._link.ask(
                [self._call(scripts.FORGET, job, _RETENTION) for job in some]
            )
            # a claim that comes between the two is looked for a month late, but it is
            looked_at = zip(some, (oldest for _, oldest in heard), strict=True)
            await self._link.ask(self._list("GT", looked_at))

    def _call(self, script: Script, job: str, *arguments: str | int) -> Command:
        return ("EVALSHA", script.sha, 4, *self._keys.of_job(job), *arguments)

    def _list(self, condition: str, scores: Iterable[tuple[str, int]]) -> list[Command]:
        """Return what lists jobs with these scores, where that is new; sent before any call.

        A job may be listed without a record, but not the other way round.
        """
        pairs = [part for job, score in scores for part in (score, job)]
        return [("ZADD", self._keys.jobs, condition, *pairs)] if pairs else []

    async def _ask(
        self, calls: list[Command], read: Callable[[Any], A], first: Sequence[Command] = ()
    ) -> Reply[A]:
        """Ask in one trip; each call's reply is a list that begins with the time."""
        if not calls:
            ((seconds, micros),) = await self._link.ask([("TIME",)])
            return Reply(from_millis(int(seconds) * 1000 + int(micros) // 1000), ())
        heard = (await self._link.ask([*first, *calls]))[len(first) :]
        time = max(reply[0] for reply in heard)
        return Reply(from_millis(time), tuple(read(reply[1:]) for reply in heard))
