"""Several schedulers on one clock and one store, in one loop: a cluster for a test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from anarchon.backends.memory import MemoryBackend
from anarchon.backends.memory_claims import MemoryClaimBackend
from anarchon.events import Event, EventKind
from anarchon.run import Attempt
from anarchon.scheduler import Scheduler
from anarchon.testing.faults import FaultyBackend, FaultyClaimBackend
from anarchon.testing.manual_clock import InstanceClock, ManualClock


@dataclass(frozen=True, slots=True)
class Member:
    """One scheduler of a fleet, its own view of the clock, and its own way to the store."""

    scheduler: Scheduler
    clock: InstanceClock
    faults: FaultyBackend | FaultyClaimBackend

    def freeze(self) -> None:
        """Stop it where it is, as SIGSTOP would; its leases lapse."""
        self.clock.freeze()
        self.faults.silent = True

    def thaw(self) -> None:
        """Let it go on, as SIGCONT would."""
        self.faults.silent = False
        self.clock.thaw()

    def kill(self) -> None:
        """Stop it for good, as SIGKILL would: it does not say another word."""
        self.freeze()


B = TypeVar("B", MemoryBackend, MemoryClaimBackend)


class _Members(Generic[B]):
    """Schedulers on one store, whatever kind that is."""

    def __init__(
        self,
        size: int,
        declare: Callable[[Scheduler, InstanceClock], object],
        *,
        clock: ManualClock | None = None,
        wall_is_off_by: timedelta = timedelta(0),
        **options: Any,
    ) -> None:
        self.clock = clock if clock is not None else ManualClock()
        self.store_is_off_by = timedelta(0)
        self.backend: B = self._store(lambda: self.clock.wall() + self.store_is_off_by)
        self.events: list[Event] = []
        self._declare = declare
        self._options = options
        self.members = [self._member(number, wall_is_off_by) for number in range(size)]

    def _store(self, now: Callable[[], datetime]) -> B:
        raise NotImplementedError

    def _faults(self) -> FaultyBackend | FaultyClaimBackend:
        raise NotImplementedError

    def __getitem__(self, number: int) -> Member:
        return self.members[number]

    def member_of(self, instance: str) -> Member:
        """Return the member that is this instance, or was it until it stopped."""
        return next(m for m in self.members if m.scheduler._instance == instance)

    def _member(self, number: int, wall_is_off_by: timedelta) -> Member:
        clock = InstanceClock(self.clock, wall_is_off_by=wall_is_off_by * number)
        faults = self._faults()
        scheduler = Scheduler(faults, name=f"member{number}", clock=clock, **self._options)
        self._declare(scheduler, clock)
        for kind in EventKind:
            scheduler.on(kind, self.events.append)
        return Member(scheduler, clock, faults)

    async def add(self) -> Member:
        """Start one more member."""
        member = self._member(len(self.members), timedelta(0))
        self.members.append(member)
        await self._start(member)
        return member

    async def start(self) -> None:
        """Start every member."""
        for member in self.members:
            await self._start(member)

    async def _start(self, member: Member) -> None:
        starting = asyncio.create_task(member.scheduler.start())
        await self.clock.advance_until(starting.done)
        await starting

    async def stop(self, member: Member) -> None:
        """Stop one member gracefully, giving it the time it takes."""
        stopping = asyncio.create_task(member.scheduler.stop())
        await self.clock.advance_until(stopping.done)
        await stopping

    async def history(self, job: str, limit: int = 100) -> list[Attempt]:
        """Return a job's attempts as the store has them, oldest slot first."""
        store = self.backend.connect(self.members[0].scheduler.namespace)
        return list(reversed((await store.history([job], limit)).answers))

    def told(self, kind: EventKind, job: str | None = None) -> list[Event]:
        """Return the events of a kind, of one job or of all."""
        return [e for e in self.events if e.kind is kind and job in (None, e.job)]

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for member in self.members:
            if not member.clock.is_frozen:
                await self.stop(member)
        # the dead are still tasks of this loop
        left = asyncio.all_tasks() - {asyncio.current_task()}
        dead = [task for task in left if task.get_name().startswith("anarchon-")]
        for task in dead:
            task.cancel()
        await asyncio.gather(*dead, return_exceptions=True)


class Fleet(_Members[MemoryBackend]):
    """``size`` schedulers that all were declared the same way, on one store in memory.

    ``declare`` is called with each scheduler before it starts, and with its clock, whose
    ``sleep`` a handler uses to take time. ``events`` is what all of them told. The store's
    clock shows the true time and what ``store_is_off_by`` adds to it; changing that sets it.
    """

    def _store(self, now: Callable[[], datetime]) -> MemoryBackend:
        return MemoryBackend(now)

    def _faults(self) -> FaultyBackend:
        return FaultyBackend(self.backend)


class ClaimFleet(_Members[MemoryClaimBackend]):
    """A ``Fleet`` on a store that only decides claims."""

    def _store(self, now: Callable[[], datetime]) -> MemoryClaimBackend:
        return MemoryClaimBackend(now)

    def _faults(self) -> FaultyClaimBackend:
        return FaultyClaimBackend(self.backend)
