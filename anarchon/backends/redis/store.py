"""The questions of the port as commands, and the replies as its answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from anarchon.backends.redis import replies, scripts
from anarchon.backends.redis.backend import Linked
from anarchon.backends.redis.scripts import Script
from anarchon.backends.redis.trips import ask
from anarchon.backends.redis.wire import Command
from anarchon.clock import MILLISECOND, to_millis
from anarchon.run import Attempt
from anarchon.store import (
    FINGERPRINT_MEMORY,
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

_RETENTION = RETENTION // MILLISECOND
_FINGERPRINT_MEMORY = FINGERPRINT_MEMORY // MILLISECOND
_PIECE = 500


class RedisStore(Linked):
    """One namespace on the server; see ``anarchon.store.LeaseStore``.

    With ``wait_replicas`` nobody is told of a claim, a renewal, a beginning or an end before the
    replicas have it. A lost claim or end would let its slot run again, a lost beginning its
    message; a lost renewal would let the promoted replica give away a lease that its holder
    still trusts, and without waiting the holder on a primary that was cut off would go on
    renewing there for ever. A lost release only leaves the run to its lapse, and what was
    registered or pruned is no promise.
    """

    async def claim(self, claims: Sequence[Claim]) -> Reply[ClaimAnswer]:
        calls = [self._claim(asked) for asked in claims]
        listed = self._list("LT", ((asked.job, to_millis(asked.slot)) for asked in claims))
        return await ask(self._link, calls, replies.claim_answer, first=listed, replicated=True)

    def _claim(self, asked: Claim) -> Command:
        terms = asked.terms
        return self._call(
            scripts.CLAIM,
            asked.job,
            to_millis(asked.slot),
            asked.token,
            asked.mode,
            asked.instance,
            terms.lease // MILLISECOND,
            terms.overlap,
            terms.max_attempts,
            terms.begins_as,
            asked.within // MILLISECOND,
            "" if terms.start_within is None else terms.start_within // MILLISECOND,
            "" if asked.after is None else to_millis(asked.after),
        )

    async def renew(self, renewals: Sequence[Renewal]) -> Reply[bool]:
        calls = [self._renewal(asked) for asked in renewals]
        return await ask(self._link, calls, replies.yes_or_no, replicated=True)

    def _renewal(self, asked: Renewal) -> Command:
        slot, waiting = to_millis(asked.slot), asked.waiting
        if waiting is None:
            held = _optional(asked.holder)
            return self._call(scripts.RENEW, asked.job, slot, asked.token, held)
        if waiting.nonce is None:
            return self._call(scripts.MARK, asked.job, slot, asked.token)
        again = (waiting.nonce, waiting.retry, waiting.delay // MILLISECOND)
        return self._call(scripts.MARK, asked.job, slot, asked.token, *again)

    async def begin(self, begins: Sequence[Begin]) -> Reply[bool]:
        calls = [
            self._call(
                scripts.BEGIN,
                asked.job,
                to_millis(asked.slot),
                asked.token,
                asked.retry,
                asked.nonce,
                asked.holder,
                asked.message,
            )
            for asked in begins
        ]
        return await ask(self._link, calls, replies.yes_or_no, replicated=True)

    async def finish(self, finishes: Sequence[Finish]) -> Reply[bool]:
        calls = [
            self._call(
                scripts.FINISH,
                asked.job,
                to_millis(asked.slot),
                asked.token,
                asked.state,
                _optional(asked.nonce),
                _optional(asked.detail),
            )
            for asked in finishes
        ]
        return await ask(self._link, calls, replies.yes_or_no, replicated=True)

    async def release(self, releases: Sequence[Release]) -> Reply[bool]:
        calls = [
            self._call(
                scripts.RELEASE, asked.job, to_millis(asked.slot), asked.token, int(asked.begun)
            )
            for asked in releases
        ]
        return await ask(self._link, calls, replies.yes_or_no)

    async def active(self, jobs: Sequence[Registration]) -> Reply[KnownJob]:
        calls = [
            self._call(scripts.REGISTER, asked.job, asked.fingerprint, _FINGERPRINT_MEMORY)
            for asked in jobs
        ]
        # whatever lies there from before a listing that was lost is looked at once
        listed = self._list("NX", ((asked.job, 0) for asked in jobs))
        return await ask(self._link, calls, replies.known_job, first=listed)

    async def history(self, jobs: Sequence[str], limit: int) -> Reply[Attempt]:
        names = list(dict.fromkeys(jobs)) if limit > 0 else []
        calls = [self._call(scripts.HISTORY, job, limit) for job in names]
        reply = await ask(self._link, calls, replies.rows)
        kept = [
            replies.attempt(job, row)
            for job, rows in zip(names, reply.answers, strict=True)
            for row in rows
        ]
        kept.sort(key=lambda a: (a.slot, a.attempt, a.job), reverse=True)
        return Reply(reply.time, tuple(kept[:limit]))

    async def prune(self, prunes: Sequence[Prune]) -> Reply[int]:
        calls = [
            # rounded up: what is spared by a part of a millisecond is spared
            self._call(
                scripts.PRUNE, asked.job, asked.keep, -(-asked.spare // MILLISECOND), _RETENTION
            )
            for asked in prunes
        ]
        reply = await ask(self._link, calls, replies.count)
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

        A job may be listed without a record. One with a record that is not listed is listed by
        its next registration: until then its unfinished runs are not forgotten.
        """
        pairs = [part for job, score in scores for part in (score, job)]
        return [("ZADD", self._keys.jobs, condition, *pairs)] if pairs else []


def _optional(text: str | None) -> str:
    """Tell apart what is not there and what is empty."""
    return "" if text is None else f"={text}"
