"""A scheduler on a store that keeps leases: claims, heartbeats, backups, recovery."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from anarchon.asking import Asking
from anarchon.gathering import LARGEST_BATCH
from anarchon.job import Job
from anarchon.keeper import Keeper
from anarchon.scheduler.backlog import Backlog
from anarchon.scheduler.core import SchedulerCore
from anarchon.scheduler.executor import Executor
from anarchon.scheduler.lease_recorder import LeaseRecorder
from anarchon.scheduler.lease_runner import LeaseRunner
from anarchon.scheduler.polling import Polling
from anarchon.scheduler.recovery import Recovery
from anarchon.scheduler.timers import Due
from anarchon.store import LeaseStore, Prune


class ByLeases:
    """The parts that keep leases, wired up; ``anarchon.scheduler.dealings`` has the rest."""

    def __init__(
        self,
        connect: Callable[[], LeaseStore],
        core: SchedulerCore,
        *,
        recover: Callable[[Sequence[Job]], None],
        back_after_outage: Callable[[float], None],
        max_threads: int,
        max_publishing: int,
    ) -> None:
        clock = core.clock
        self.calling = self._asking = asking = Asking(
            connect(), clock, time=core.time, back_after_outage=back_after_outage
        )
        self.keeper = Keeper(connect, clock)
        backlog = Backlog(core, asking)
        recorder = LeaseRecorder(core, asking, self.keeper, backlog)
        self.executor = Executor(
            core, recorder, max_threads=max_threads, max_publishing=max_publishing
        )
        self.runner = LeaseRunner(
            core, asking, self.keeper, backlog, self.executor, lambda job: recover([job])
        )
        self._polling = Polling(core, self.runner)
        self._recovery = Recovery(core, asking, self.keeper, self.runner, self._polling.learn)

    def start(self) -> None:
        self.keeper.start()
        self.runner.backups.start()

    async def begin(self, jobs: Sequence[Job]) -> datetime:
        return await self._recovery.begin(jobs)

    async def watch(self) -> None:
        await self._polling.run()

    def fire(self, due: Due) -> None:
        self.runner.start(due)

    async def after_gap(self, jobs: Sequence[Job]) -> None:
        await self._recovery.after_gap(jobs)

    async def keep_up(self, jobs: Sequence[Job]) -> None:
        """Register anew, so that our editions are not forgotten, see to what comes up, and prune.

        A store that forgot the end of a run, as in a failover, has a run that nobody watches.
        """
        await self._recovery.find_unwatched(jobs)
        for start in range(0, len(jobs), LARGEST_BATCH):
            some = jobs[start : start + LARGEST_BATCH]
            await self._asking.prune([_retention(job) for job in some])

    async def stop_looking(self) -> None:
        await self.runner.backups.stop()

    async def stop(self) -> None:
        await self.keeper.stop()
        self.executor.close()
        self._polling.close()


def _retention(job: Job) -> Prune:
    return Prune(job.name, job.history_limit, max(job.catch_up, job.max_late))
