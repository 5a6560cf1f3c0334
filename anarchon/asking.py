"""The questions to a store, asked one by one by whoever needs an answer.

``anarchon.gathering`` makes calls of them, and ``anarchon.calling`` makes those.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from anarchon.calling import Calling
from anarchon.claim_store import ClaimStore, Save
from anarchon.clock import Clock
from anarchon.gathering import LARGEST_BATCH, Answered, Gatherer
from anarchon.store import (
    Begin,
    Claim,
    ClaimAnswer,
    Finish,
    KnownJob,
    LeaseStore,
    Prune,
    Registration,
    Release,
    Renewal,
    Reply,
)
from anarchon.store_time import StoreTime


class Asking(Calling):
    """Asks one store that keeps leases."""

    def __init__(
        self,
        store: LeaseStore,
        clock: Clock,
        *,
        time: StoreTime | None = None,
        back_after_outage: Callable[[float], None] | None = None,
    ) -> None:
        super().__init__(store, clock, time=time, back_after_outage=back_after_outage)
        self._store = store
        self._claims = Gatherer("claim", self, store.claim, one_of_a_job=True)
        self._begins = Gatherer("begin", self, store.begin)
        self._marks = Gatherer("mark", self, store.renew)
        self._finishes = Gatherer("finish", self, store.finish)
        self._releases = Gatherer("release", self, store.release)
        self._gatherers = (
            self._claims,
            self._begins,
            self._marks,
            self._finishes,
            self._releases,
        )

    async def claim(
        self, claim: Claim, *, deadline: float, give_up: Callable[[], bool]
    ) -> Answered[ClaimAnswer]:
        """Ask for a slot until there is an answer or it is not worth asking.

        Raises ``StoreError`` when ``give_up`` says so, or the store refuses: ``OutcomeUnknown`` if
        any reply got lost on the way to that.
        """
        return await self._claims.ask(claim, deadline, give_up)

    async def begin(
        self, begin: Begin, *, deadline: float, give_up: Callable[[], bool]
    ) -> Answered[bool]:
        """Ask whether a worker may start what was published; as ``claim``."""
        return await self._begins.ask(begin, deadline, give_up)

    async def mark(
        self, mark: Renewal, *, deadline: float, give_up: Callable[[], bool]
    ) -> Answered[bool]:
        """Note that a run waits in the broker; as ``claim``. Heartbeats are the keeper's."""
        return await self._marks.ask(mark, deadline, give_up)

    async def finish(
        self, finish: Finish, *, deadline: float, give_up: Callable[[], bool]
    ) -> Answered[bool]:
        """Record the end of a run; as ``claim``."""
        return await self._finishes.ask(finish, deadline, give_up)

    async def release(
        self, release: Release, *, deadline: float, give_up: Callable[[], bool]
    ) -> Answered[bool]:
        """Give a lease back; as ``claim``."""
        return await self._releases.ask(release, deadline, give_up)

    async def active(self, jobs: Sequence[Registration]) -> Reply[KnownJob]:
        """Register jobs, in calls of a bearable size; raises what the store raises.

        The time of the reply is that of the first call.
        """
        first: Reply[KnownJob] | None = None
        known: list[KnownJob] = []
        for start in range(0, max(len(jobs), 1), LARGEST_BATCH):
            some = jobs[start : start + LARGEST_BATCH]
            reply = await self.reply(lambda some=some: self._store.active(some))  # type: ignore[misc]
            first = first or reply
            known += reply.answers
        assert first is not None, "the loop runs at least once"
        return Reply(first.time, tuple(known))

    async def prune(self, prunes: Sequence[Prune]) -> Reply[int]:
        """Delete what retention allows; raises what the store raises."""
        return await self.reply(lambda: self._store.prune(prunes))


class ClaimAsking(Calling):
    """Asks one store that decides claims and keeps no leases."""

    def __init__(
        self,
        store: ClaimStore,
        clock: Clock,
        *,
        time: StoreTime | None = None,
        back_after_outage: Callable[[float], None] | None = None,
    ) -> None:
        super().__init__(store, clock, time=time, back_after_outage=back_after_outage)
        self._store = store
        self._claims = Gatherer("claim", self, store.claim, one_of_a_job=True)
        self._saves = Gatherer("save", self, store.save, one_of_a_job=True)
        self._gatherers = (self._claims, self._saves)

    async def claim(
        self, claim: Claim, *, deadline: float, give_up: Callable[[], bool]
    ) -> Answered[ClaimAnswer]:
        """Ask for a slot, as ``Asking.claim``."""
        return await self._claims.ask(claim, deadline, give_up)

    async def save(
        self, save: Save, *, deadline: float, give_up: Callable[[], bool]
    ) -> Answered[bool]:
        """Write how an attempt ended; as ``claim``."""
        return await self._saves.ask(save, deadline, give_up)

    async def store_time(self) -> datetime:
        """Return the time the store tells; raises what it raises."""
        return (await self.reply(lambda: self._store.claim(()))).time
