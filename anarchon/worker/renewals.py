"""The leases of what a worker has begun: renewed by its main process, whoever does the work.

A process that computes cannot be counted on to renew anything, and a worker with a hundred
of them must not send a hundred heartbeats. So one call a heartbeat renews the lease of every
message that the worker is at work on, by token and holder, and it does not matter which of
them have been begun by now: the store refuses the others. A lease is over when its run was
renewed once and is refused twice since; one refusal may be its end, on its way to us.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from datetime import timedelta

from anarchon.calling import PATIENCE, is_being_cancelled
from anarchon.clock import Bell, Clock
from anarchon.errors import OutcomeUnknown, StoreError, StoreUnavailable
from anarchon.message import PublishedRun
from anarchon.store import LeaseStore, Renewal
from anarchon.worker.on_demand import IDLE, OnDemand

log = logging.getLogger("anarchon.worker")

Runs = Callable[[], Collection[PublishedRun]]


class Renewals(OnDemand):
    """Renews on a thread of its own, with a connection of its own, as long as there is something.

    ``known`` returns the tracked runs whose messages are with this worker, ``active`` those of
    them that it is at work on; both are called on that thread. Call it when a message comes.
    """

    def __init__(
        self,
        connect: Callable[[], LeaseStore],
        clock: Clock,
        holder: str,
        *,
        known: Runs,
        active: Runs,
    ) -> None:
        self._connect = connect
        self._clock = clock
        self._holder = holder
        self._known = known
        self._active = active
        super().__init__("anarchon-renewals")

    def forget(self) -> None:
        super().forget()
        self._store: LeaseStore | None = None
        self._failing = False
        #: How often each token was refused since it was renewed last.
        self._refused: dict[str, int] = {}

    async def work(self, bell: Bell) -> None:
        due, idle_at = float("inf"), self._clock.monotonic() + IDLE
        try:
            while not self._closing:
                bell.clear()
                calls, known, now = self._calls, self._known(), self._clock.monotonic()
                if known:
                    # one that came now may have a shorter lease than those before it
                    due = min(due, now + _heartbeat(known).total_seconds())
                    if due <= now:
                        due = now + await self._renew_active(known)
                    idle_at = due + IDLE
                elif now >= idle_at and self.may_rest(calls):
                    return
                else:
                    due = float("inf")
                await self._clock.wait(bell, (due if known else idle_at) - now)
        finally:
            if self._store is not None:
                await self._store.close()
                self._store = None

    async def _renew_active(self, known: Collection[PublishedRun]) -> float:
        """Renew what is worked on; return the seconds until that is due again."""
        runs = list({run.token: run for run in self._active()}.values())
        heartbeat = _heartbeat(runs or known).total_seconds()
        self._refused = {
            run.token: self._refused[run.token] for run in runs if run.token in self._refused
        }
        if not runs:
            return heartbeat
        try:
            await self._renew(runs, heartbeat)
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and is_being_cancelled():
                raise
            # whatever else it was, the next heartbeat must come
            if not self._failing:
                problem = error if isinstance(error, StoreError) else repr(error)
                log.warning("heartbeat failed, tried again: %s", problem)
            self._failing = True
            # sooner than a heartbeat: there is less of the leases left now
            return heartbeat / 3
        if self._failing:
            log.warning("heartbeats are answered again")
        self._failing = False
        return heartbeat

    async def _renew(self, runs: list[PublishedRun], heartbeat: float) -> None:
        if self._store is None:
            store = self._connect()
            try:
                async with self._clock.timeout(min(max(heartbeat, 1.0), PATIENCE)):
                    await store.open()
            except BaseException:
                await store.close()
                raise
            self._store = store
        try:
            await self._renew_some(runs, heartbeat)
            return
        except (StoreUnavailable, OutcomeUnknown) as error:
            if len(runs) == 1 or not error.partly:
                raise
        except StoreError:
            pass
        # what is not answered for, or poisons the call, must not cost the others theirs
        await self._renew_one_by_one(runs, heartbeat)

    async def _renew_one_by_one(self, runs: list[PublishedRun], heartbeat: float) -> None:
        unanswered: StoreError | None = None
        for run in runs:
            try:
                await self._renew_some([run], heartbeat)
            except (StoreUnavailable, OutcomeUnknown) as error:
                if not error.partly:
                    raise
                unanswered = error
            except StoreError as error:
                log.warning("heartbeat refused: job=%s: %s", run.job, error)
        if unanswered is not None:
            raise unanswered

    async def _renew_some(self, runs: list[PublishedRun], deadline: float) -> None:
        assert self._store is not None, "opened before anything is renewed"
        renewals = [Renewal(run.job, run.slot, run.token, self._holder) for run in runs]
        async with self._clock.timeout(deadline):
            reply = await self._store.renew(renewals)
        for run, renewed in zip(runs, reply.answers, strict=True):
            if renewed:
                self._refused[run.token] = 0
            elif run.token in self._refused:
                self._refused[run.token] += 1
                if self._refused[run.token] == 2:
                    log.warning(
                        "lease lost while its task works on: %s; its end will be refused if"
                        " somebody else was given the run",
                        run.line(),
                    )


def _heartbeat(runs: Collection[PublishedRun]) -> timedelta:
    return min(run.lease for run in runs if run.lease is not None) / 3
