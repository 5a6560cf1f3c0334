"""A store that knows one history and nothing else."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from anarchon import Attempt, RunState, StoreError
from anarchon.clock import EPOCH
from anarchon.store import LeaseStore, Reply

NOW = datetime.fromisoformat("2026-11-29T12:00:00Z")


class CannedBackend:
    """Answers with these attempts, or this error."""

    label = "canned://"

    def __init__(self) -> None:
        self.attempts: list[Attempt] = []
        self.error: StoreError | None = None

    def connect(self, namespace: str) -> LeaseStore:
        return _CannedStore(self)  # type: ignore[return-value]  # only a history is asked of it


class _CannedStore:
    label = CannedBackend.label
    # named by who asks a store, and never called here
    claim = begin = renew = finish = release = None

    def __init__(self, backend: CannedBackend) -> None:
        self._backend = backend

    async def open(self) -> None:
        if self._backend.error is not None:
            raise self._backend.error

    async def close(self) -> None:
        pass

    async def history(self, jobs: Sequence[str], limit: int) -> Reply[Attempt]:
        kept = [attempt for attempt in self._backend.attempts if attempt.job in jobs]
        return Reply(EPOCH, tuple(kept[:limit]))


def attempt(job: str = "sync", *, ago: float = 90.0, detail: str | None = "'done'") -> Attempt:
    """Return an attempt that took 1.5 s and began 200 ms after its slot."""
    slot = NOW - timedelta(seconds=ago)
    started = slot + timedelta(milliseconds=200)
    ended = started + timedelta(seconds=1.5)
    return Attempt(job, slot, 1, RunState.SUCCESS, "web-1", 7, started, ended, detail)
