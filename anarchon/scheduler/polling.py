"""The jobs whose schedules name no slots, and are asked whether one is due by now.

A `Polled` schedule is given the job's newest slot and says whether the next is due. Then the
slot is this moment, and it is claimed as the one that follows the newest: of all instances
that find one, the store lets only the first have it. Whoever loses that way learns the newest
slot from the store, along with the run to watch, and asks on from there; whoever wins knows it
already. So a job that is not due costs the store nothing, and one that is costs each instance
a claim and all but one a look.

What is asked is the user's code. It runs on threads of its own, so that a slow one holds up
nothing but itself, and each job is asked one question at a time. One that raises, or answers
nonsense, is told of once and asked again, ever less often, until it answers.

How the options apply: jitter puts off the claim, not the slot. A claim is given up once it is
later than ``max_late``, or than the time to the next question; then the schedule is asked
anew, so that nothing is lost by it. ``catch_up`` means nothing. Runs overlap, are taken over
and end as any others; a slot that overlap skipped is the newest one all the same, or every
question that follows would find it again.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from anarchon.clock import Bell, from_millis, growing_pauses, to_millis
from anarchon.events import EventKind
from anarchon.job import Job
from anarchon.scheduler.core import SchedulerCore
from anarchon.scheduler.lease_runner import LeaseRunner
from anarchon.scheduler.timers import Due
from anarchon.schedules import Polled
from anarchon.store import KnownJob, Mode, Outcome

log = logging.getLogger("anarchon.scheduler")

#: A rule that is always due runs no more often than this, and none is asked more often.
SHORTEST = timedelta(milliseconds=100)
#: What a rule goes by may change at any time: it is asked again at least so often.
LONGEST = timedelta(seconds=60)
#: A claim takes a moment, however soon the next question is.
_LEAST_LATE = timedelta(seconds=1)
_SLOW = 10.0
_PAUSES = 1.0, 60.0
_THREADS = 8


@dataclass(slots=True)
class _Asked:
    """A polled job, what is known of it, and when to ask it next, by our monotonic clock."""

    job: Job
    rule: Polled
    newest: datetime
    at: float
    #: It is being asked, or its slot is being claimed.
    is_busy: bool = False
    #: Only set while it fails.
    pauses: Iterator[float] | None = field(default=None, repr=False)


class Polling:
    """Asks the schedules that have to be asked, and claims what they say is due."""

    def __init__(self, core: SchedulerCore, runner: LeaseRunner) -> None:
        self._core = core
        self._runner = runner
        self._asked: dict[str, _Asked] = {}
        self._changed = Bell()
        self._threads = ThreadPoolExecutor(_THREADS, "anarchon-polled")

    def learn(self, job: Job, known: KnownJob) -> None:
        """Take in what the store knows of a job, which is asked right away if it is polled."""
        if not isinstance(job.schedule, Polled):
            return
        newest = max(known.newest, known.first_seen)
        asked = self._asked.get(job.name)
        if asked is None:
            asked = self._asked[job.name] = _Asked(job, job.schedule, newest, 0.0)
        asked.newest = newest
        if asked.pauses is None:
            self._ask_in(asked, timedelta(0))

    async def run(self) -> None:
        """Ask whoever's time has come, for ever."""
        clock = self._core.clock
        while True:
            try:
                self._changed.clear()
                now = clock.monotonic()
                for asked in self._asked.values():
                    if not asked.is_busy and asked.at <= now:
                        asked.is_busy = True
                        name = f"anarchon-poll-{asked.job.name}"
                        self._core.spawn(self._ask(asked), name)
                waiting = (asked.at for asked in self._asked.values() if not asked.is_busy)
                delay = min(waiting, default=float("inf")) - now
                await clock.wait(self._changed, min(max(delay, 0.0), LONGEST.total_seconds()))
            except Exception:
                log.exception("internal error while asking polled schedules; goes on")
                await clock.sleep(1.0)

    def close(self) -> None:
        """Let the threads go that nothing runs on."""
        self._threads.shutdown(wait=False)

    def _ask_in(self, asked: _Asked, wait: timedelta) -> None:
        asked.at = self._core.clock.monotonic() + wait.total_seconds()
        self._changed.set()

    async def _ask(self, asked: _Asked) -> None:
        newest, now = asked.newest, self._core.now()
        claims = False
        try:
            with self._core.droppable():
                due, wait = _checked(await self._call(asked, newest, now))
        except Exception as error:
            self._failed(asked, error)
        else:
            asked.pauses = None
            slot = from_millis(to_millis(now))
            if not due:
                self._ask_in(asked, _within_bounds(wait))
            elif slot < asked.newest + SHORTEST:
                # whoever found that, or the store's clock went back
                self._ask_in(asked, _within_bounds(asked.newest + SHORTEST - now))
            else:
                claims = True
                await self._claim(asked, slot, newest, wait)
        finally:
            if not claims:
                self._free(asked)

    async def _call(self, asked: _Asked, newest: datetime, now: datetime) -> object:
        if self._core.clock.manual:
            return _answer(asked.rule, newest, now)
        loop = asyncio.get_running_loop()
        answer = loop.run_in_executor(self._threads, _answer, asked.rule, newest, now)
        try:
            async with self._core.clock.timeout(_SLOW):
                return await asyncio.shield(answer)
        except TimeoutError:
            if not answer.done():
                log.warning(
                    "schedule slow: job=%s has not said for %s s whether it is due; waiting",
                    asked.job.name,
                    _SLOW,
                )
        return await answer

    async def _claim(
        self, asked: _Asked, slot: datetime, newest: datetime, wait: timedelta | None
    ) -> None:
        core, job = self._core, asked.job
        step = wait if wait is not None and wait > timedelta(0) else None
        within = job.max_late if step is None else min(job.max_late, max(step, _LEAST_LATE))
        jitter = job.jitter if step is None else min(job.jitter, step / 10)

        def heard(outcome: Outcome | None) -> None:
            if outcome in (Outcome.WON, Outcome.RUNNING, Outcome.OVERLAP):
                asked.newest = max(asked.newest, slot)
                passed = core.now() - slot
                self._ask_in(asked, max(_within_bounds(wait) - passed, timedelta(0)))
            else:
                # who is behind asks again once the store has told the newest slot
                self._ask_in(asked, LONGEST if outcome is Outcome.DONE else _LEAST_LATE)
            self._free(asked)

        try:
            with core.droppable():
                await core.clock.sleep(jitter.total_seconds() * random.random())
        except asyncio.CancelledError:
            self._free(asked)
            raise
        # the one it was found by, whatever was learned meanwhile: it may not be due after that
        self._runner.start(Due(job, slot, within, after=newest), Mode.SCHEDULED, heard)

    def _free(self, asked: _Asked) -> None:
        asked.is_busy = False
        self._changed.set()

    def _failed(self, asked: _Asked, error: Exception) -> None:
        if asked.pauses is None:
            asked.pauses = growing_pauses(*_PAUSES)
            log.error("schedule failed: job=%s", asked.job.name, exc_info=error)
            self._core.emit(
                EventKind.ERROR,
                asked.job.name,
                detail="its schedule did not say whether it is due; asked again until it does",
                error=error,
            )
        self._ask_in(asked, timedelta(seconds=next(asked.pauses)))


def _answer(rule: Polled, newest: datetime, now: datetime) -> object:
    try:
        return rule.is_due(newest, now)
    except (SystemExit, KeyboardInterrupt) as error:
        # it may end itself, but not the scheduler
        raise RuntimeError(f"is_due() raised {error!r}") from error


def _within_bounds(wait: timedelta | None) -> timedelta:
    return LONGEST if wait is None else min(max(wait, SHORTEST), LONGEST)


def _checked(answer: object) -> tuple[bool, timedelta | None]:
    if isinstance(answer, tuple) and len(answer) == 2:
        due, wait = answer
        if isinstance(due, bool) and (wait is None or isinstance(wait, timedelta)):
            return due, wait
    raise TypeError(f"is_due() gave {answer!r}, and not whether it is due and when to ask again")
