"""The modes of Redis and Valkey that keep no leases: one script call a job, and one flight a batch.

All of a job lies under one hash tag, and its history is one stream in every mode; the modes differ
in what says who has a slot (``claim_modes``).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from anarchon.backends.redis import scripts
from anarchon.backends.redis.backend import Linked
from anarchon.backends.redis.claim_modes import Mode
from anarchon.backends.redis.keys import Keys
from anarchon.backends.redis.link import Link
from anarchon.backends.redis.trips import ask
from anarchon.backends.redis.wire import Command
from anarchon.claim_store import Save, won
from anarchon.clock import MILLISECOND, from_millis, to_millis
from anarchon.run import Attempt, RunState
from anarchon.store import Claim, ClaimAnswer, Outcome, Reply


class RedisClaimStore(Linked):
    """One namespace on the server; see ``anarchon.claim_store.ClaimStore``.

    With ``wait_replicas`` nobody is told that a slot was won before the replicas have it. The
    history is no promise, and waits for nobody.
    """

    def __init__(self, link: Link, keys: Keys, mode: Mode) -> None:
        super().__init__(link, keys)
        self._mode = mode

    async def claim(self, claims: Sequence[Claim]) -> Reply[ClaimAnswer]:
        calls = [self._claim(asked) for asked in claims]
        heard = await ask(self._link, calls, lambda reply: reply, replicated=True)
        answers = map(_answer, claims, heard.answers)
        return Reply(heard.time, tuple(answers))

    def _claim(self, asked: Claim) -> Command:
        mode, slot = self._mode, to_millis(asked.slot)
        assert mode.script is not None, "leases are another store's"
        key = f"{mode.key}{slot}" if mode.key.endswith(":") else mode.key
        within = asked.within if mode.longest is None else min(asked.within, mode.longest)
        kept = mode.remembers(asked.within)
        extra = (kept // MILLISECOND,) if mode.ends and kept is not None else mode.extra
        return (
            *("EVALSHA", mode.script.sha, 2, *self._keys.of_claim(asked.job, key)),
            *(slot, asked.token, asked.instance, asked.terms.begins_as),
            *(within // MILLISECOND, *extra),
        )

    async def save(self, saves: Sequence[Save]) -> Reply[bool]:
        return await ask(self._link, [self._save(asked) for asked in saves], lambda reply: True)

    def _save(self, asked: Save) -> Command:
        _, history = self._keys.of_claim(asked.job, "")
        fields = _fields(asked.attempt)
        return ("EVALSHA", scripts.CLAIM_SAVE.sha, 1, history, asked.keep, *fields)

    async def history(self, jobs: Sequence[str], limit: int) -> Reply[Attempt]:
        names = list(dict.fromkeys(jobs)) if limit > 0 else []
        calls: list[Command] = [
            (
                *("EVALSHA", scripts.CLAIM_HISTORY.sha, 1),
                *(self._keys.of_claim(job, "")[1], limit),
            )
            for job in names
        ]
        heard = await ask(self._link, calls, lambda reply: reply)
        told = [
            _attempt(job, entry)
            for job, entries in zip(names, heard.answers, strict=True)
            for entry in entries
        ]
        told.sort(key=lambda attempt: (attempt.slot, attempt.job), reverse=True)
        return Reply(heard.time, tuple(told[:limit]))


def _answer(asked: Claim, reply: list[Any]) -> ClaimAnswer:
    outcome, holder = reply if len(reply) == 2 else (reply[0], None)
    if outcome != Outcome.WON:
        return ClaimAnswer(Outcome(outcome), holder=holder)
    return won(asked, holder, asked.terms.lease)


def _fields(attempt: Attempt) -> list[str | int]:
    """Return the entry of an attempt: names and values, without what is not there."""
    fields: dict[str, str | int | None] = {
        "slot": to_millis(attempt.slot),
        "state": attempt.state,
        "instance": attempt.instance,
        "started": to_millis(attempt.started),
        "ended": _millis(attempt.ended),
        "detail": attempt.detail,
        "worker": attempt.worker,
        "message": attempt.message,
        "begun": _millis(attempt.begun),
    }
    return [part for pair in fields.items() if pair[1] is not None for part in pair]  # type: ignore[misc]


def _attempt(job: str, entry: list[str]) -> Attempt:
    told = dict(zip(entry[::2], entry[1::2], strict=True))
    slot = int(told["slot"])
    return Attempt(
        job,
        from_millis(slot),
        1,
        RunState(told["state"]),
        told["instance"],
        slot,
        from_millis(int(told["started"])),
        _moment(told.get("ended")),
        told.get("detail"),
        told.get("worker"),
        told.get("message"),
        _moment(told.get("begun")),
    )


def _millis(moment: datetime | None) -> int | None:
    return None if moment is None else to_millis(moment)


def _moment(millis: str | None) -> datetime | None:
    return None if millis is None else from_millis(int(millis))
