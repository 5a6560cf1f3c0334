"""A store in this process: the rules applied to dictionaries, and nothing else.

It is the executable specification the other backends are compared with, and the store for
tests and for one process that needs no other. Nothing in it outlives the process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from anarchon import rules
from anarchon.backends.steps import Q, answered
from anarchon.clock import SystemClock
from anarchon.rules import JobRecord, Step
from anarchon.run import Attempt
from anarchon.store import (
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


@dataclass(slots=True)
class _Namespace:
    """Everything kept for one namespace; the lock makes each call one atomic step."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    records: dict[str, JobRecord] = field(default_factory=dict)
    attempts: dict[str, dict[tuple[datetime, int], Attempt]] = field(default_factory=dict)


class MemoryBackend:
    """A store that lives as long as this object; ``now`` is its clock."""

    label = "memory://"

    def __init__(self, now: Callable[[], datetime] | None = None) -> None:
        self._now = now if now is not None else SystemClock().wall
        self._namespaces: dict[str, _Namespace] = {}

    @classmethod
    def from_url(cls, url: str) -> MemoryBackend:
        """Return a store of its own: two ``memory://`` URLs never meet."""
        return cls()

    def __repr__(self) -> str:
        return f"<MemoryBackend: {len(self._namespaces)} namespaces>"

    def connect(self, namespace: str) -> MemoryStore:
        return MemoryStore(self._namespaces.setdefault(namespace, _Namespace()), self._now)


class MemoryStore:
    """One view of a namespace; see ``anarchon.store.LeaseStore``."""

    label = MemoryBackend.label

    def __init__(self, namespace: _Namespace, now: Callable[[], datetime]) -> None:
        self._namespace = namespace
        self._now = now

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def claim(self, claims: Sequence[Claim]) -> Reply[ClaimAnswer]:
        return self._apply(rules.claim, claims, make=JobRecord.made_by)

    async def renew(self, renewals: Sequence[Renewal]) -> Reply[bool]:
        return self._apply(rules.renew, renewals)

    async def finish(self, finishes: Sequence[Finish]) -> Reply[bool]:
        return self._apply(rules.finish, finishes)

    async def release(self, releases: Sequence[Release]) -> Reply[bool]:
        return self._apply(rules.release, releases)

    async def active(self, jobs: Sequence[Registration]) -> Reply[KnownJob]:
        return self._apply(rules.register, jobs, make=JobRecord.made_by)

    async def history(self, jobs: Sequence[str], limit: int) -> Reply[Attempt]:
        space = self._namespace
        with space.lock:
            kept = [a for job in dict.fromkeys(jobs) for a in space.attempts.get(job, {}).values()]
            time = self._now()
        kept.sort(key=lambda a: (a.slot, a.attempt, a.job), reverse=True)
        return Reply(time, tuple(kept[:limit]))

    async def prune(self, prunes: Sequence[Prune]) -> Reply[int]:
        space = self._namespace
        with space.lock:
            time = self._now()
            gone = tuple(self._prune(asked, time) for asked in prunes)
            for job, record in list(space.records.items()):
                self._keep(job, rules.forget(job, record, time))
        return Reply(time, gone)

    def _prune(self, asked: Prune, time: datetime) -> int:
        space = self._namespace
        record = space.records.get(asked.job)
        if record is None:
            return 0
        attempts = space.attempts.setdefault(asked.job, {})
        slots = sorted((slot for slot, _ in attempts), reverse=True)
        surplus = slots[asked.keep] if len(slots) > asked.keep else None
        step = rules.prune(record, rules.prune_up_to(asked, surplus, time))
        space.records[asked.job] = step.record
        gone = [key for key in attempts if key[0] in set(step.answer)]
        for key in gone:
            del attempts[key]
        return len(gone)

    def _apply(
        self,
        rule: Callable[[JobRecord, Q, datetime], Step[A]],
        questions: Sequence[Q],
        *,
        make: Callable[[Q, datetime], JobRecord] | None = None,
    ) -> Reply[A]:
        space = self._namespace
        with space.lock:
            time = self._now()
            answers = answered(
                rule, questions, time, get=space.records.get, keep=self._keep, make=make
            )
        return Reply(time, tuple(answers))

    def _keep(self, job: str, step: Step[A]) -> None:
        self._namespace.records[job] = step.record
        kept = self._namespace.attempts.setdefault(job, {})
        for attempt in step.attempts:
            kept[attempt.slot, attempt.attempt] = attempt
