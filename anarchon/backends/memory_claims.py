"""A claim-only store in this process: the decision of ``anarchon.claim_store`` and no more.

It is what the claim-only backends are compared with, and the store of tests with a clock of
their own. It forgets no claim.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from anarchon.claim_store import Save, refused_at, won
from anarchon.clock import SystemClock, to_millis
from anarchon.run import Attempt
from anarchon.store import Claim, ClaimAnswer, Outcome, Reply


@dataclass(slots=True)
class _Namespace:
    lock: threading.Lock = field(default_factory=threading.Lock)
    claims: dict[tuple[str, datetime], Claim] = field(default_factory=dict)
    attempts: dict[str, dict[datetime, Attempt]] = field(default_factory=dict)


class MemoryClaimBackend:
    """A store that lives as long as this object; ``now`` is its clock."""

    label = "memory://"
    judges_time = True

    def __init__(self, now: Callable[[], datetime] | None = None) -> None:
        self._now = now if now is not None else SystemClock().wall
        self._namespaces: dict[str, _Namespace] = {}

    def __repr__(self) -> str:
        return f"<MemoryClaimBackend: {len(self._namespaces)} namespaces>"

    def connect(self, namespace: str) -> MemoryClaimStore:
        """Return a store on the data of one namespace; all of them see the same."""
        return MemoryClaimStore(self._now, self._namespaces.setdefault(namespace, _Namespace()))

    def remembers(self, within: timedelta) -> None:
        """Say that no claim is ever forgotten."""
        return


class MemoryClaimStore:
    """One way to the data of one namespace."""

    label = MemoryClaimBackend.label

    def __init__(self, now: Callable[[], datetime], namespace: _Namespace) -> None:
        self._now = now
        self._namespace = namespace

    async def open(self) -> None:
        """Do nothing: there is nothing to reach."""

    async def close(self) -> None:
        """Do nothing."""

    async def claim(self, claims: Sequence[Claim]) -> Reply[ClaimAnswer]:
        with self._namespace.lock:
            time = self._now()
            return Reply(time, tuple(self._decide(asked, time) for asked in claims))

    def _decide(self, asked: Claim, time: datetime) -> ClaimAnswer:
        known = self._namespace.claims.get((asked.job, asked.slot))
        if known is None:
            refused = refused_at(asked, time)
            if refused is not None:
                return ClaimAnswer(refused)
            self._namespace.claims[asked.job, asked.slot] = known = asked
            self._write(_opened(asked, time))
        if known.token != asked.token:
            return ClaimAnswer(Outcome.DONE, holder=known.instance)
        return won(known, known.instance, known.terms.lease)

    def _write(self, attempt: Attempt) -> None:
        self._namespace.attempts.setdefault(attempt.job, {})[attempt.slot] = attempt

    async def save(self, saves: Sequence[Save]) -> Reply[bool]:
        with self._namespace.lock:
            for saved in saves:
                self._write(saved.attempt)
                kept = self._namespace.attempts[saved.job]
                for slot in sorted(kept)[: -saved.keep]:
                    del kept[slot]
            return Reply(self._now(), (True,) * len(saves))

    async def history(self, jobs: Sequence[str], limit: int) -> Reply[Attempt]:
        with self._namespace.lock:
            known = [a for job in jobs for a in self._namespace.attempts.get(job, {}).values()]
            known.sort(key=lambda attempt: attempt.slot, reverse=True)
            return Reply(self._now(), tuple(known[:limit]))


def _opened(asked: Claim, time: datetime) -> Attempt:
    return Attempt(
        asked.job, asked.slot, 1, asked.terms.begins_as, asked.instance, to_millis(asked.slot), time
    )
