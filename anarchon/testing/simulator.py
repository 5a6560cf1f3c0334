"""Real schedulers in virtual time: they live and die by a plan, and write down what they did.

``World`` has a clock, a server that lies, and machines. On each machine runs a scheduler with
everything it has in production, from timers to keeper; only time and the way to the store
are not real. What its jobs do is written down outside the store, for the checker.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from random import Random
from typing import Any, TypeVar

from anarchon.action import Publisher
from anarchon.backends.memory import MemoryBackend
from anarchon.errors import Interrupted
from anarchon.run import RunContext
from anarchon.scheduler import Scheduler
from anarchon.schedules import Schedule
from anarchon.testing.evidence import Body, Evidence, Fault, Life, Trouble
from anarchon.testing.lying_store import LyingLink, LyingServer
from anarchon.testing.manual_clock import InstanceClock
from anarchon.testing.virtual_time import VirtualClock, VirtualLoop

T = TypeVar("T")

_on_machine: contextvars.ContextVar[Machine] = contextvars.ContextVar("machine")


@dataclass(frozen=True, slots=True)
class Labour:
    """What one start of a handler will do: how long it takes, and how it ends.

    ``heeds`` says that it ends at once when its signal is set.
    """

    length: float
    heeds: bool = True
    raises: bool = False


@dataclass(frozen=True, slots=True)
class Task:
    """A job to be declared on the machines; ``labour`` is drawn anew for each start.

    ``publishes`` makes its work a message to a broker, which is there, and takes no time;
    ``via`` makes another publisher of it, on each machine.
    """

    name: str
    schedule: Schedule
    labour: Callable[[], Labour] = lambda: Labour(0.0)
    publishes: bool = False
    via: Callable[[Machine, Task], Publisher] | None = None
    options: dict[str, Any] = field(default_factory=dict)


class World:
    """One simulation: true time, a server, machines, and what is written down about them.

    ``store`` makes the store that the server keeps; the options are those of every scheduler.
    """

    def __init__(
        self,
        random: Random,
        *,
        start: datetime,
        store: Callable[[Callable[[], datetime]], MemoryBackend] = MemoryBackend,
        **options: Any,
    ) -> None:
        self.loop = _Loop()
        self.clock = VirtualClock(self.loop, start)
        self.random = random
        self.server = LyingServer(self.clock, store)
        self.machines: list[Machine] = []
        self.options = options
        self._lives: list[Life] = []
        self._bodies: list[_Written] = []
        self._troubles: list[Trouble] = []

    def now(self) -> datetime:
        """Return the time that everything is written down in: the store's, if it is right."""
        return self.clock.wall() + self.server.nudged_by

    def add_machine(self, tasks: Sequence[Task]) -> Machine:
        """Set up a machine; it is switched on by ``Machine.start``."""
        machine = Machine(self, len(self.machines), tasks)
        self.machines.append(machine)
        return machine

    def trouble(
        self,
        fault: Fault,
        since: datetime,
        machine: Machine | None = None,
        *,
        lasting: float = 0.0,
    ) -> None:
        """Write down that a fault was there from then until now, and lasts so many seconds more."""
        instance = None if machine is None else machine.instance
        if machine is None or instance:
            until = self.now() + timedelta(seconds=lasting)
            self._troubles.append(Trouble(fault, since, until, instance))

    def evidence(self) -> Evidence:
        """Return everything that was written down until now."""
        lives = [*self._lives, *(m.life for m in self.machines if m.life is not None)]
        bodies = [written.body for written in self._bodies]
        return Evidence(lives, bodies, self._troubles, self.now())

    def run(self, main: Callable[[], Awaitable[None]]) -> None:
        """Run a plan to its end; the global random numbers are those of this world meanwhile."""
        state, collects = random.getstate(), gc.isenabled()
        random.seed(self.random.random())
        # thousands of tasks wait at any time, and each collection would look at all of them
        gc.disable()
        try:
            self.loop.run_until_complete(main())
            self._bury()
        finally:
            if collects:
                gc.enable()
            random.setstate(state)
            self.loop.close()

    def _bury(self) -> None:
        # what the dead left behind are still tasks of this loop
        left = asyncio.all_tasks(self.loop)
        for task in left:
            task.cancel()
        self.loop.run_until_complete(_ended(left))


class Machine:
    """A place for one scheduler at a time: it is switched on, freezes, dies, comes back."""

    def __init__(self, world: World, number: int, tasks: Sequence[Task]) -> None:
        self.world = world
        self.number = number
        self.tasks = tasks
        self.clock = InstanceClock(world.clock)
        self.link = self._new_link()
        self.life: Life | None = None
        self.scheduler: Scheduler | None = None
        self.dies_on_call: tuple[int, bool] | None = None
        """The number of a call to the store, counted from the start, and whether it is done."""
        self._rate, self._early = 1.0, 0.0

    @property
    def instance(self) -> str:
        """The id of the present start; empty while there is none."""
        return self.scheduler._instance if self.scheduler is not None else ""

    @property
    def is_on(self) -> bool:
        """Tell whether a scheduler runs here, frozen or not."""
        return self.scheduler is not None

    def has_clock(self, *, off_by: timedelta, rate: float, early: float) -> None:
        """Say how wrong the clock of this machine is, from the next start on."""
        self.clock.wall_is_off_by = off_by
        self._rate, self._early = rate, early

    async def start(self) -> None:
        """Switch it on; returns when the scheduler has started, or died on the way."""
        off_by = self.clock.wall_is_off_by
        self.clock = InstanceClock(self.world.clock, wall_is_off_by=off_by)
        self.clock.rate, self.clock.wakes_early_by = self._rate, self._early
        self.link = self._new_link()
        scheduler = Scheduler(
            self.link, name=f"m{self.number}", clock=self.clock, **self.world.options
        )
        self.scheduler = scheduler
        for task in self.tasks:
            scheduler.add(task.name, task.schedule, self._action(task), **task.options)
        _on_machine.set(self)
        starting = asyncio.create_task(scheduler.start())
        await self.world.clock.sleep(0)  # its id is drawn
        self.life = Life(self.instance, scheduler.jobs, self.world.now())
        await self._done_or_dead(starting, scheduler)

    def _new_link(self) -> LyingLink:
        world = self.world
        return LyingLink(world.server, self.clock, world.random, self._on_call)

    def _on_call(self, number: int, done: bool) -> None:
        if self.dies_on_call == (number, done):
            self.dies_on_call = None
            self.kill()

    def freeze(self) -> None:
        """Stop it where it is."""
        self.clock.freeze()

    def thaw(self) -> None:
        """Let it go on."""
        self.clock.thaw()

    def kill(self) -> None:
        """End it without a word; what it has sent already may still arrive."""
        self.clock.freeze()
        self.link.cut = True
        self._is_over(killed=True)

    async def stop(self) -> None:
        """End it gracefully."""
        scheduler = self.scheduler
        if scheduler is None:
            return
        self._is_over(killed=False, keep=True)
        _on_machine.set(self)
        await self._done_or_dead(asyncio.create_task(scheduler.stop()), scheduler)
        if self.scheduler is scheduler:
            self.scheduler = None

    async def _done_or_dead(self, work: asyncio.Task[None], scheduler: Scheduler) -> None:
        while not work.done() and self.scheduler is scheduler:
            await asyncio.wait({work}, timeout=0.5)
        if work.done():
            await work

    def _is_over(self, *, killed: bool, keep: bool = False) -> None:
        if self.life is not None:
            end = self.world.now()
            self.world._lives.append(replace(self.life, end=end, killed=killed))
        self.life = None
        if not keep:
            self.scheduler = None

    def _action(self, task: Task) -> Any:
        if task.via is not None:
            return task.via(self, task)
        return _Broker(self, task) if task.publishes else self._handler(task)

    def _handler(self, task: Task) -> Callable[[RunContext], Awaitable[None]]:
        clock = self.clock

        async def handler(ctx: RunContext) -> None:
            written, labour = self._writes(ctx), task.labour()
            try:
                await _work(clock, ctx, labour)
            except BaseException:
                written.failed = True
                raise
            finally:
                # the work of the dead is torn down with the world, and never ended
                if not clock.is_frozen:
                    written.ended = self.world.now()

        return handler

    def _writes(self, ctx: RunContext) -> _Written:
        written = _Written(ctx, self.world.now())
        self.world._bodies.append(written)
        return written

    def delivers(self, deliver: Callable[[], None]) -> None:
        """Let the result of a function that ran beside the loop be noticed here, if not frozen."""
        self.clock.call_later(self.world.random.random() * 0.01, deliver)


class _Broker:
    """Takes the messages of one task, and always has."""

    sends_to = "simulation"

    def __init__(self, machine: Machine, task: Task) -> None:
        self._machine = machine
        self.task = task.name

    def publish(self, ctx: RunContext) -> str:
        written = self._machine._writes(ctx)
        written.ended = written.started
        return f"message {len(self._machine.world._bodies)}"


@dataclass(slots=True)
class _Written:
    """A body in the making."""

    ctx: RunContext
    started: datetime
    ended: datetime | None = None
    failed: bool = False

    @property
    def body(self) -> Body:
        ctx = self.ctx
        return Body(
            ctx.job,
            ctx.slot,
            ctx.attempt,
            ctx.fence,
            ctx.instance,
            self.started,
            self.ended,
            self.failed,
        )


class _Loop(VirtualLoop):
    def hand_over(self, future: asyncio.Future[T], result: T) -> None:
        machine = _on_machine.get()

        def deliver() -> None:
            if not future.done():
                future.set_result(result)

        machine.delivers(deliver)


async def _work(clock: InstanceClock, ctx: RunContext, labour: Labour) -> None:
    if labour.heeds and labour.length:
        try:
            async with clock.timeout(labour.length):
                raise Interrupted(await ctx.signal.wait())
        except TimeoutError:
            pass
    else:
        await clock.sleep(labour.length)
    if labour.raises:
        raise RuntimeError("as the plan wants it")


async def _ended(tasks: set[asyncio.Task[Any]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)
