"""A keeper on a manual clock, and a store that only renews."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from anarchon.errors import OutcomeUnknown, StoreError, StoreUnavailable
from anarchon.keeper import Held, Keeper
from anarchon.store import LeaseStore, Renewal, Reply
from anarchon.testing import ManualClock

SLOT = datetime(2026, 1, 1, tzinfo=UTC)


class Renewals:
    """A store that only renews; what it answers, and when, is the test's to say."""

    label = "renewals://"

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.calls: list[tuple[float, list[str]]] = []
        self.unknown: set[str] = set()
        self.error: Exception | None = None
        self.poisoned: set[str] = set()
        #: What it does not answer for, though it does for others.
        self.silent: set[str] = set()
        self.gate: asyncio.Event | None = None
        self.opened = 0
        self.opening = 0.0
        self.closed = 0

    async def open(self) -> None:
        self.opened += 1
        await self._clock.sleep(self.opening)

    async def close(self) -> None:
        self.closed += 1

    async def renew(self, renewals: Sequence[Renewal]) -> Reply[bool]:
        tokens = [one.token for one in renewals]
        self.calls.append((self._clock.monotonic(), tokens))
        # what the store knows when the request arrives, not when its reply does
        answers = tuple(token not in self.unknown for token in tokens)
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            raise self.error
        if self.silent.intersection(tokens):
            kind = StoreUnavailable if self.silent.issuperset(tokens) else OutcomeUnknown
            silence = kind(self.label, "a node is down")
            silence.partly = True
            raise silence
        if self.poisoned.intersection(tokens):
            raise StoreError(self.label, "refused")
        return Reply(self._clock.wall(), answers)


class Kept:
    """A keeper at work on such a store."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = Renewals(self.clock)
        self.keeper = Keeper(cast(Callable[[], LeaseStore], lambda: self.store), self.clock)

    async def __aenter__(self) -> Kept:
        self.keeper.start()
        await self.clock.settle()
        return self

    async def __aexit__(self, *_: Any) -> None:
        if self.store.gate is not None:
            self.store.gate.set()
        stopping = asyncio.create_task(self.keeper.stop())
        await self.clock.advance_until(stopping.done)
        await stopping

    def hold(self, token: str = "t", *, lease: float = 15, heartbeat: float = 5) -> Held:
        length, beat = timedelta(seconds=lease), timedelta(seconds=heartbeat)
        held = Held("job", SLOT, token, length, beat)
        self.keeper.hold(held)
        return held

    def grant(self, token: str = "t", *, lease: float = 15, heartbeat: float = 5) -> Held:
        held = self.hold(token, lease=lease, heartbeat=heartbeat)
        self.keeper.grant(held, held.lease, self.clock.monotonic())
        return held
