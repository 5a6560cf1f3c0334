"""A store in this process: the rules applied to dictionaries, and nothing else.

It is the executable specification the other backends are compared with, and the store for
tests and for one process that needs no other. Nothing in it outlives the process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

from anarchon import rules, tracked
from anarchon.backends.steps import Q, answered
from anarchon.clock import SystemClock
from anarchon.record import JobRecord, Run, Step
from anarchon.run import Attempt
from anarchon.standing import Standing
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

A = TypeVar("A")
K = TypeVar("K")
V = TypeVar("V")

_ALONE = "no other process meets this one here, and nothing outlives it"


@dataclass(slots=True)
class _Namespace:
    """Everything kept for one namespace; the lock makes each call one atomic step.

    The records have the runs that have not ended; ``ended`` has the others, by job, which no
    question is about but one for their own slot.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    records: dict[str, JobRecord] = field(default_factory=dict)
    ended: dict[str, dict[datetime, Run]] = field(default_factory=dict)
    attempts: dict[str, dict[tuple[datetime, int], Attempt]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Saved:
    """Everything that a store kept at one moment."""

    records: dict[str, dict[str, JobRecord]] = field(default_factory=dict)
    ended: dict[str, dict[str, dict[datetime, Run]]] = field(default_factory=dict)
    attempts: dict[str, dict[str, dict[tuple[datetime, int], Attempt]]] = field(
        default_factory=dict
    )


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

    def save(self) -> Saved:
        """Return what is kept now, to be gone back to: what a replica has when it lags."""
        saved = Saved()
        for name, space in self._namespaces.items():
            with space.lock:
                saved.records[name] = dict(space.records)
                saved.ended[name] = _copied(space.ended)
                saved.attempts[name] = _copied(space.attempts)
        return saved

    def restore(self, saved: Saved) -> None:
        """Keep what was kept then, and forget what came after."""
        for name, space in self._namespaces.items():
            with space.lock:
                space.records = dict(saved.records.get(name, {}))
                space.ended = _copied(saved.ended.get(name, {}))
                space.attempts = _copied(saved.attempts.get(name, {}))

    async def examine(self, namespace: str) -> Standing:
        return Standing("the memory of this process", True, (_ALONE,))

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

    async def begin(self, begins: Sequence[Begin]) -> Reply[bool]:
        return self._apply(tracked.begin, begins)

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
        ended = space.ended.setdefault(asked.job, {})
        whole = replace(record, runs={**record.runs, **ended})
        step = rules.prune(whole, rules.prune_up_to(asked, surplus, time))
        space.records[asked.job] = replace(record, floor=step.record.floor)
        for slot in step.answer:
            del ended[slot]
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
        with self._namespace.lock:
            time = self._now()
            answers = answered(rule, questions, time, get=self._get, keep=self._keep, make=make)
        return Reply(time, tuple(answers))

    def _get(self, asked: Q) -> JobRecord | None:
        record = self._namespace.records.get(asked.job)
        if record is None or isinstance(asked, Registration):
            return record
        ended = self._namespace.ended.get(asked.job, {}).get(asked.slot)
        return record if ended is None else record.having(ended)

    def _keep(self, job: str, step: Step[A]) -> None:
        space = self._namespace
        ended = space.ended.setdefault(job, {})
        unfinished: dict[datetime, Run] = {}
        for slot, run in step.record.runs.items():
            # the mark of a skipped slot may become a run
            ended.pop(slot, None)
            (ended if run.state.has_ended else unfinished)[slot] = run
        space.records[job] = replace(step.record, runs=unfinished)
        kept = space.attempts.setdefault(job, {})
        for attempt in step.attempts:
            kept[attempt.slot, attempt.attempt] = attempt


def _copied(kept: Mapping[str, Mapping[K, V]]) -> dict[str, dict[K, V]]:
    return {job: dict(of_job) for job, of_job in kept.items()}
