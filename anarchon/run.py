"""A run and what is known of it: its states, its attempts, and what a handler is given."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from anarchon.clock import rfc3339, to_millis
from anarchon.errors import Interrupted, LeaseLost


class RunState(StrEnum):
    """Where a run, or one attempt of it, stands."""

    CLAIMED = "claimed"
    """Ours to publish; the broker does not have it yet."""
    QUEUED = "queued"
    """The broker has it, and its run is followed to the end: no worker has begun it yet."""
    RUNNING = "running"
    SUCCESS = "success"
    PUBLISHED = "published"
    """The broker has it; nobody follows it further."""
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    """Handed over by a graceful stop; as a run's last state: and then replaced by a newer slot."""
    LOST = "lost"
    """Its lease lapsed; as a run's last state: and nobody may start it again."""
    EXPIRED = "expired"
    """No worker began it before its start deadline."""
    SKIPPED = "skipped"
    """Not a run: the mark of a slot that another run of its job kept from starting."""

    @property
    def has_ended(self) -> bool:
        """Tell whether nothing more can happen to a run in this state."""
        return self not in _UNFINISHED


_UNFINISHED = frozenset({RunState.CLAIMED, RunState.QUEUED, RunState.RUNNING})


class Overlap(StrEnum):
    """May a slot start while another run of its job is busy?"""

    SKIP = "skip"
    ALLOW = "allow"


class OnStoreError(StrEnum):
    """What a worker does with a tracked message while the store cannot say whether it may."""

    RETRY = "retry"
    """Send a copy that waits for a lease, and drop this delivery."""
    RUN = "run"
    """Start, and go on asking."""


@dataclass(frozen=True, slots=True)
class Tracking:
    """What the message of a tracked run has to bring about.

    ``lease`` is the run's; ``start_by`` is when nobody may begin it any more, by the store's
    clock; ``timeout`` is how long the work may take.
    """

    lease: timedelta
    start_by: datetime
    on_store_error: OnStoreError
    timeout: timedelta | None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One line of a job's history: one attempt at one slot, as the store has it.

    Attempts of a run count from 1; attempt 0 is the mark of a skipped slot. ``detail`` is
    what a success returned, the error of a failure, or the id of a published message. A tracked
    run also tells which ``message`` which ``worker`` began last, and when it ``begun`` first.
    Times are the store's.
    """

    job: str
    slot: datetime
    attempt: int
    state: RunState
    instance: str
    fence: int
    started: datetime
    ended: datetime | None = None
    detail: str | None = None
    worker: str | None = None
    message: str | None = None
    begun: datetime | None = None


class Signal:
    """Says to one attempt that it must end, and why: ``stop``, ``lease_lost`` or ``timeout``.

    Set from any thread; the first reason stays. Each attempt has its own.
    """

    __slots__ = ("_lock", "_reason", "_set", "_waiters")

    def __init__(self) -> None:
        self._reason: str | None = None
        #: Made for whoever waits in a thread: most signals are of claims that are lost.
        self._set: threading.Event | None = None
        self._lock = threading.Lock()
        self._waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    def __repr__(self) -> str:
        return f"<Signal {self._reason or 'not set'}>"

    @property
    def reason(self) -> str | None:
        """Why the attempt must end; ``None`` as long as it need not."""
        return self._reason

    def is_set(self) -> bool:
        """Tell whether the attempt must end."""
        return self._reason is not None

    def set(self, reason: str) -> bool:
        """Set the signal; tell whether this call was the one that did."""
        with self._lock:
            if self._reason is not None:
                return False
            self._reason = reason
            if self._set is not None:
                self._set.set()
            waiters, self._waiters = self._waiters, []
        for loop, event in waiters:
            # a loop may be closed between a handler's end and a late signal
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(event.set)
        return True

    def raise_if_set(self) -> None:
        """Raise ``LeaseLost`` or ``Interrupted`` if the attempt must end; for long loops."""
        if self._reason is not None:
            raise LeaseLost() if self._reason == "lease_lost" else Interrupted(self._reason)

    async def wait(self) -> str:
        """Wait until the attempt must end; return the reason."""
        event = asyncio.Event()
        waiter = (asyncio.get_running_loop(), event)
        with self._lock:
            if self._reason is not None:
                return self._reason
            self._waiters.append(waiter)
        try:
            await event.wait()
        finally:
            with self._lock:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
        reason = self.reason
        assert reason is not None, "only set() wakes a waiter"
        return reason

    def wait_in_thread(self, seconds: float | None = None) -> bool:
        """Block this thread until the signal is set, or so many seconds; tell whether it is set."""
        with self._lock:
            if self._reason is not None:
                return True
            self._set = waiting = self._set or threading.Event()
        return waiting.wait(seconds)


@dataclass(frozen=True, slots=True)
class RunContext:
    """What a handler is told of its attempt.

    ``fence`` grows with every claim of the job: hand it to outside resources, so that they
    can refuse a runner that was superseded. ``deadline`` is when ``timeout`` ends the
    attempt, by the store's clock, or ``None``. ``tracking`` is there for a publisher whose
    message is followed to its end.
    """

    job: str
    slot: datetime
    attempt: int
    fence: int
    token: str
    instance: str
    namespace: str
    deadline: datetime | None
    signal: Signal = field(repr=False)
    tracking: Tracking | None = None

    @property
    def idempotency_key(self) -> str:
        """A text that is the same for every attempt at this slot, and for nothing else."""
        return idempotency_key(self.namespace, self.job, self.slot)

    @property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger that writes the job, slot and attempt before each message."""
        said = {"job": self.job, "slot": rfc3339(self.slot), "attempt": self.attempt}
        return _RunLogger(logging.getLogger("anarchon.run"), said)


def idempotency_key(namespace: str, job: str, slot: datetime) -> str:
    """Return a text that stands for a slot of a job, and for nothing else."""
    return f"{namespace}:{job}:{to_millis(slot)}"


class _RunLogger(logging.LoggerAdapter[logging.Logger]):
    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        said = " ".join(f"{key}={value}" for key, value in (self.extra or {}).items())
        return f"{said} {msg}", kwargs
