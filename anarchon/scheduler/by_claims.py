"""A scheduler on a store that only decides claims: no leases, so no backups and no recovery."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime

from anarchon.asking import ClaimAsking
from anarchon.claim_store import ClaimStore
from anarchon.job import Job
from anarchon.scheduler.claim_only_runner import ClaimOnlyRunner
from anarchon.scheduler.claim_recorder import ClaimRecorder
from anarchon.scheduler.core import SchedulerCore
from anarchon.scheduler.executor import Executor
from anarchon.scheduler.recovery import warn_if_past
from anarchon.scheduler.timers import Due

log = logging.getLogger("anarchon.scheduler")


class ByClaims:
    """The parts that do without leases, wired up; ``anarchon.scheduler.dealings`` has the rest."""

    def __init__(
        self,
        connect: Callable[[], ClaimStore],
        core: SchedulerCore,
        *,
        back_after_outage: Callable[[float], None],
        max_threads: int,
        max_publishing: int,
    ) -> None:
        self.calling = self._asking = asking = ClaimAsking(
            connect(), core.clock, time=core.time, back_after_outage=back_after_outage
        )
        self.executor = Executor(
            core,
            ClaimRecorder(core, asking),
            max_threads=max_threads,
            max_publishing=max_publishing,
        )
        self._runner = ClaimOnlyRunner(core, asking, self.executor)

    def start(self) -> None:
        log.warning(
            "this store decides claims and keeps no leases: %s: what is missed, or lost with the"
            " instance that runs it, is not made up for (no catch_up, no takeover), runs of one job"
            ' may overlap (no overlap="skip"), and nothing is tracked',
            self.calling.label,
        )

    async def begin(self, jobs: Sequence[Job]) -> datetime:
        time = await self._asking.store_time()
        for job in jobs:
            # of a schedule that raises the timers tell
            with suppress(Exception):
                warn_if_past(job, time)
        return time

    async def watch(self) -> None:
        """Do nothing: what no timer stands for needs leases."""

    def fire(self, due: Due) -> None:
        self._runner.start(due)

    async def after_gap(self, jobs: Sequence[Job]) -> None:
        """Do nothing: the timers see to what may still start in time, and the rest is lost."""

    async def keep_up(self, jobs: Sequence[Job]) -> None:
        """Do nothing: such a store sees to its retention by itself."""

    async def stop_looking(self) -> None:
        """Do nothing: nothing is looked at."""

    async def stop(self) -> None:
        self.executor.close()
