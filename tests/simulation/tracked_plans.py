"""A plan for one simulation of tracked runs: schedulers, a broker, workers, and bad days for all.

It is a plan like the others, with the same faults for the machines and the store, and more
for the broker and the workers. What is asked of it in the end is said in ``problems_of``.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from anarchon.backends.memory import MemoryBackend
from anarchon.run import Attempt, RunState
from anarchon.schedules import Every
from anarchon.testing.simulated_workers import Broker, Chore, Done, Worker
from anarchon.testing.simulator import Task
from tests.simulation.plans import Plan
from tests.tracked_starts import TrackedStart, doubled, out_of_order, overlapping

#: What a run may come to once nothing goes wrong any more.
_WELL = frozenset({RunState.SUCCESS, RunState.FAILED, RunState.SKIPPED})


@dataclass
class TrackedReport:
    """What came of a plan."""

    seed: int
    done: list[Done]
    refused: int
    broken: list[str]
    unfinished: list[str]
    history: list[Attempt]
    well_from: datetime
    until: datetime
    skips: frozenset[str]
    faults: Counter[str]


class TrackedPlan(Plan):
    """One simulation of tracked runs; ``run_tracked`` carries it out."""

    def __init__(
        self,
        seed: int,
        *,
        say: Callable[[str], None] = lambda line: None,
        store: Callable[[Callable[[], datetime]], MemoryBackend] = MemoryBackend,
    ) -> None:
        super().__init__(seed, say=say, store=store)
        # all of it is compared in the end
        self.world.options["history_limit"] = 1000
        self._broker = Broker(self.world, self._chore, self.lease)
        self._numbers = iter(range(10_000))

    def _task(self, number: int) -> Task:
        random = self.random
        self.start_within = self.lease * 10
        options: dict[str, Any] = {
            "track": True,
            "start_within": self.start_within,
            "overlap": random.choice(("skip", "skip", "allow")),
            "max_attempts": random.choice((1, 2, 3, 3, 10)),
        }
        return Task(
            f"job{number}",
            Every(self.interval),
            via=lambda machine, task: self._broker.publisher(machine, task),
            options=options,
        )

    def _chore(self) -> Chore:
        random = self.random
        length = random.random() * random.choice((0.1, 0.5, 3.0)) * self.lease
        retries = random.random() < 0.15
        after = random.choice((0.0, random.random() * 2 * self.lease)) if retries else None
        return Chore(length, raises=random.random() < 0.1, retries_after=after)

    def run_tracked(self) -> TrackedReport:
        """Carry it out, and return what came of it."""
        report: list[TrackedReport] = []

        async def main() -> None:
            for _ in range(self.random.choice((1, 2, 3))):
                self._hire()
            self._broker.badness = self.random.choice((0.0, 0.2, 0.6))
            await asyncio.gather(self._live(), self._torment_workers())
            report.append(await self._settle())

        self.world.run(main)
        return report[0]

    def _hire(self) -> Worker:
        return Worker(self._broker, f"pod {next(self._numbers)}")

    # ---------------------------------------------------------------- what befalls the workers

    async def _torment_workers(self) -> None:
        kinds = (
            self._kill_a_worker,
            self._kill_a_worker,
            self._freeze_a_worker,
            self._freeze_a_worker,
            self._cut_a_worker,
            self._lie_to_a_worker,
            self._dismiss_all_workers,
            self._stop_the_broker,
        )
        for gap in self._gaps(self.random.randint(5, 12)):
            await self._sleep(gap)
            kind = self.random.choice(kinds)
            self._tell(kind)
            await kind()

    def _a_worker(self) -> Worker:
        return self.random.choice([w for w in self._broker.workers if not w.is_dead])

    async def _kill_a_worker(self) -> None:
        self._a_worker().kill()
        self._hire()

    async def _freeze_a_worker(self) -> None:
        worker = self._a_worker()
        worker.clock.freeze()
        await self._sleep(self._some_time())
        worker.clock.thaw()

    async def _cut_a_worker(self) -> None:
        worker = self._a_worker()
        worker.link.cut = True
        await self._sleep(self._some_time())
        worker.link.cut = worker.is_dead

    async def _lie_to_a_worker(self) -> None:
        worker = self._a_worker()
        worker.link.badness = self.random.choice((0.3, 0.9))
        await self._sleep(self._some_time())
        worker.link.badness = 0.0

    async def _dismiss_all_workers(self) -> None:
        for worker in self._broker.workers:
            if not worker.is_dead:
                worker.kill()
        await self._sleep(self._some_time())
        self._hire()

    async def _stop_the_broker(self) -> None:
        self._broker.is_down = True
        await self._sleep(self._some_time())
        self._broker.is_down = False
        self._broker.bring_all()

    # ---------------------------------------------------------------- what is left in the end

    async def _settle(self) -> TrackedReport:
        """Wait until everything has settled, and longer, so that all must be well by then."""
        world = self.world
        self.say("nothing goes wrong from now on")
        self._broker.badness = 0.0
        # a message brought again, a retry, and the takeovers of what all of that left behind
        await self._sleep(60 + 4 * self.start_within + 3 * self.interval)
        well_from = world.now()
        await self._sleep(30 + 3 * self.start_within + 5 * self.interval)
        saved = world.server.backend.save()
        history = [a for kept in saved.attempts["default"].values() for a in kept.values()]
        unfinished = self._overdue()
        for machine in world.machines:
            await machine.stop()
        return TrackedReport(
            self.seed,
            self._broker.done,
            self._broker.refused,
            world.server.watch.broken,
            unfinished,
            history,
            well_from,
            world.now(),
            frozenset(task.name for task in self._tasks() if task.options["overlap"] == "skip"),
            self.faults,
        )

    def _tasks(self) -> Iterator[Task]:
        for machine in self.world.machines:
            yield from machine.tasks

    def _overdue(self) -> list[str]:
        """Name the runs of living jobs that somebody should have ended or taken over by now."""
        if self.faults["forget"]:
            return []
        now, known = self.world.server.now(), {task.name for task in self._tasks()}
        patience = timedelta(seconds=6 * self.lease + 1)
        return [
            f"{job}@{run.slot}: {run.state}, attempt {run.attempt}, until {run.expires}"
            for job, record in self.world.server.backend.save().records["default"].items()
            for run in record.runs.values()
            if job in known
            and not run.state.has_ended
            and not run.is_busy_at(now - patience)
            and now - run.started > patience
        ]


def problems_of(report: TrackedReport) -> list[str]:
    """Say everything that is wrong with a simulation of tracked runs."""
    lossy = bool(report.faults["forget"])
    lossy_clock = lossy or bool(report.faults["set clock"])
    starts = [_start(done) for done in report.done]
    return [
        *report.broken,
        *(f"L4: left unfinished: {run}" for run in report.unfinished),
        *(() if lossy else map(str, doubled(starts))),
        *(() if lossy_clock else map(str, out_of_order(starts))),
        *(() if lossy_clock else map(str, overlapping(starts, report.skips))),
        *_unwell(report),
    ]


def _start(done: Done) -> TrackedStart:
    ctx = done.message.ctx
    return TrackedStart(
        ctx.job,
        ctx.slot,
        ctx.attempt,
        ctx.fence,
        done.message.retry,
        done.worker,
        done.started,
        done.busy_until,
        done.outcome,
    )


def _unwell(report: TrackedReport) -> Iterator[str]:
    """Once nothing goes wrong any more, whatever is started ends as it should."""
    if report.faults["forget"]:
        return
    for attempt in report.history:
        started = attempt.slot >= report.well_from
        if started and attempt.ended is not None and attempt.state not in _WELL:
            yield f"not well: {attempt}"
