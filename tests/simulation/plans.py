"""A plan for one simulation, all of it drawn from one seed: who does what, and what goes wrong.

Each machine has faults of its own, one after the other, and so has the server; those of
different ones fall together as they may. Rare paths are made common: leases hardly longer
than two heartbeats, batches of one, a history of one attempt, jitter of nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from anarchon.backends.memory import MemoryBackend
from anarchon.run import Attempt
from anarchon.schedules import Cron, Every, Schedule
from anarchon.testing.evidence import Evidence, Fault
from anarchon.testing.lying_store import LATEST
from anarchon.testing.simulator import Labour, Machine, Task, World

#: What makes an hour of daylight saving worth passing through, and an ordinary one.
STARTS = (datetime(2026, 3, 29, 0, 40, tzinfo=UTC), datetime(2026, 1, 1, 11, 3, tzinfo=UTC))
MINUTE = timedelta(minutes=1)
SLOTS = 60


@dataclass
class Report:
    """What came of a plan."""

    seed: int
    evidence: Evidence
    broken: list[str]
    unfinished: list[str]
    history: list[Attempt]
    """What the store says of the whole time; empty where it keeps less, or forgot some."""
    faults: Counter[str]


class Plan:
    """One simulation; ``run`` carries it out."""

    def __init__(
        self,
        seed: int,
        *,
        say: Callable[[str], None] = lambda line: None,
        store: Callable[[Callable[[], datetime]], MemoryBackend] = MemoryBackend,
    ) -> None:
        self.seed = seed
        self.random = random = Random(seed)
        self._say = say
        self.faults: Counter[str] = Counter()
        self.lease = random.choice((1.0, 2.0, 3.0, 5.0, 15.0))
        self.interval = random.choice((5, 5, 7, 10, 10, 20, 60))
        tasks = [self._task(number) for number in range(random.randint(1, 3))]
        self.length = SLOTS * self.interval / len(tasks)
        options: dict[str, Any] = {
            "lease": self.lease,
            "heartbeat": self.lease * random.choice((0.33, 0.2, 0.45)),
            "jitter": random.choice((0.0, 0.5, 0.5, 3.0)),
            "history_limit": random.choice((1, 5, 1000)),
            "max_publishing": random.choice((1, 500)),
        }
        if random.random() < 0.3:
            options["catch_up"] = self.interval * random.uniform(1, 4)
        self.world = World(random, start=random.choice(STARTS), store=store, **options)
        self._sleep = self.world.clock.sleep
        for _ in range(random.choice((1, 2, 3, 3, 3, 4, 5))):
            self._add_machine(tasks)

    def _task(self, number: int) -> Task:
        random = self.random
        options: dict[str, Any] = {"overlap": random.choice(("skip", "allow"))}
        options["max_attempts"] = random.choice((1, 2, 3, 3, 10))
        if random.random() < 0.3:
            options["timeout"] = random.uniform(0.5, 3 * self.lease)
        kind = random.choice(("quick", "medium", "long", "publish"))
        schedule: Schedule = Every(self.interval)
        if self.interval == 60 and random.random() < 0.7:
            schedule = Cron("* * * * *", "Europe/Berlin")
        if kind == "publish":
            options = {"max_attempts": options["max_attempts"], "overlap": "allow"}
            return Task(f"job{number}", schedule, publishes=True, options=options)
        longest = {
            "quick": 0.0,
            "medium": min(self.interval, 2 * self.lease),
            "long": min(max(self.interval * 1.7, 3 * self.lease), 60.0),
        }[kind]

        def labour() -> Labour:
            return Labour(
                random.random() * longest,
                heeds=random.random() < 0.7,
                raises=random.random() < 0.1,
            )

        return Task(f"job{number}", schedule, labour, options=options)

    def _add_machine(self, tasks: list[Task]) -> None:
        random = self.random
        if random.random() < 0.1 and len(tasks) > 1:
            tasks = tasks[:-1]  # deployed before the last job was written
        elif random.random() < 0.05:
            # ... or before the schedule of this one was changed
            older = replace(tasks[0], schedule=Every(self.interval * 2, offset=1))
            tasks = [older, *tasks[1:]]
        machine = self.world.add_machine(tasks)
        machine.has_clock(
            off_by=timedelta(seconds=random.choice((0, 0, random.uniform(-300, 300)))),
            rate=1 + random.choice((0, random.uniform(-500e-6, 500e-6))),
            early=random.choice((0.0, 0.02)),
        )

    def run(self) -> Report:
        """Carry it out, and return what came of it."""
        report: list[Report] = []

        async def main() -> None:
            await self._live()
            report.append(await self._conclude())

        self.world.run(main)
        return report[0]

    async def _live(self) -> None:
        random = self.random
        server, machines = self.world.server, self.world.machines
        left = random.randint(10, 16)
        shares = Counter(random.choice((*machines, server)) for _ in range(left))
        tormented = [self._torment_machine(m, shares[m]) for m in machines]
        await asyncio.gather(*tormented, self._torment_server(shares[server]))
        for machine in machines:
            if not machine.is_on:
                await self._start(machine)

    def _gaps(self, faults: int) -> list[float]:
        """Return pauses before each fault, which add up to less than the length."""
        moments = sorted(self.random.random() * self.length * 0.8 for _ in range(faults))
        return [b - a for a, b in zip([0.0, *moments], moments, strict=False)]

    async def _torment_machine(self, machine: Machine, faults: int) -> None:
        began = self.world.loop.time()
        if self.random.random() < 0.2:
            await self._sleep(self.random.random() * self.length / 3)  # starts late
        await self._start(machine)
        kinds = (
            self._freeze,
            self._freeze,
            self._kill,
            self._kill,
            self._die_on_a_call,
            self._die_on_a_call,
            self._stop,
            self._cut,
            self._refuse,
            self._lie,
            self._lie,
            self._slow,
            self._set_wall_clock,
        )
        for gap in self._gaps(faults):
            await self._sleep(gap)
            kind = self.random.choice(kinds)
            self._tell(kind, machine)
            await kind(machine)
        await self._sleep(max(0.0, began + self.length - self.world.loop.time()))

    async def _torment_server(self, faults: int) -> None:
        kinds = [self._pause, self._pause, self._restart, self._restart, self._nudge_clock]
        if self.seed % 4 == 0:
            kinds += [self._forget, self._set_clock]
        for gap in self._gaps(faults):
            await self._sleep(gap)
            kind = self.random.choice(kinds)
            self._tell(kind)
            await kind()

    def _tell(self, kind: Callable[..., Awaitable[None]], machine: Machine | None = None) -> None:
        name = kind.__name__.strip("_").replace("_", " ")
        self.faults[name] += 1
        self.say(f"{name} {'' if machine is None else machine.instance}")

    def say(self, line: str) -> None:
        """Tell what happens, with the true time."""
        self._say(f"{self.world.clock.wall().time()} {line}")

    def _some_time(self) -> float:
        """Draw how long a fault lasts, mostly around what a lease can bear."""
        random = self.random
        longest = random.choice((0.3, 1.0, 1.5, 3.0, 10.0))
        return random.random() * min(longest * self.lease, 40.0)

    # ---------------------------------------------------------------- what befalls a machine

    async def _start(self, machine: Machine) -> None:
        await machine.start()
        self.say(f"started {machine.instance or 'and died'}")

    async def _freeze(self, machine: Machine) -> None:
        since = self.world.now()
        machine.freeze()
        await self._sleep(self._some_time())
        if machine.is_on:
            machine.thaw()
            self.world.trouble(Fault.FROZEN, since, machine)
            self.say(f"thawed {machine.instance}")

    async def _kill(self, machine: Machine) -> None:
        machine.kill()
        await self._sleep(self.random.choice((0.0, self._some_time())))
        await self._start(machine)

    async def _die_on_a_call(self, machine: Machine) -> None:
        soon = machine.link.calls + self.random.randint(1, 4)
        machine.dies_on_call = (soon, self.random.random() < 0.5)
        await self._sleep(self.interval)
        machine.dies_on_call = None
        if not machine.is_on:
            self.say("died on a call to the store")
            await self._start(machine)

    async def _stop(self, machine: Machine) -> None:
        await machine.stop()
        self.say("stopped")
        await self._sleep(self.random.choice((0.0, self._some_time())))
        await self._start(machine)

    async def _with_bad_link(self, machine: Machine, *, lasting: float = 0.0, **state: Any) -> None:
        since, link = self.world.now(), machine.link
        usual = {name: getattr(link, name) for name in state}
        for name, value in state.items():
            setattr(link, name, value)
        await self._sleep(self._some_time())
        for name, value in usual.items():
            setattr(link, name, value)
        # what was sent or is to be answered by then may be on its way for longer
        self.world.trouble(Fault.CUT, since, machine, lasting=lasting)
        self.say(f"heals {machine.instance}")

    async def _cut(self, machine: Machine) -> None:
        await self._with_bad_link(machine, cut=True)

    async def _refuse(self, machine: Machine) -> None:
        await self._with_bad_link(machine, refuses=True)

    async def _lie(self, machine: Machine) -> None:
        badness = self.random.choice((0.1, 0.5, 0.9))
        await self._with_bad_link(machine, badness=badness, lasting=LATEST)

    async def _slow(self, machine: Machine) -> None:
        slowness = self.random.choice((0.05, 0.5, 3.0))
        await self._with_bad_link(machine, slowness=slowness, lasting=2 * slowness)

    async def _set_wall_clock(self, machine: Machine) -> None:
        seconds = self.random.choice((-86400, -3600, -60, 60, 3600, 86400))
        machine.clock.wall_is_off_by += timedelta(seconds=seconds)

    # ---------------------------------------------------------------- what befalls the server

    async def _pause(self) -> None:
        since = self.world.now()
        self.world.server.pause()
        await self._sleep(self._some_time())
        self.world.server.resume()
        self.world.trouble(Fault.AWAY, since)
        self.say("server resumes")

    async def _restart(self) -> None:
        since = self.world.now()
        self.world.server.go_down()
        await self._sleep(self._some_time())
        self.world.server.come_up()
        self.world.trouble(Fault.AWAY, since)
        self.say("server is back")

    async def _forget(self) -> None:
        since = self.world.now()
        self.world.server.remember()
        await self._sleep(self._some_time())
        self.world.server.forget()
        self.world.trouble(Fault.FORGOT, since)
        self.say("server has forgotten")

    async def _nudge_clock(self) -> None:
        # within a lease's margin: every guarantee holds
        self.world.server.nudged_by = timedelta(seconds=self.random.uniform(-0.12, 0.12))

    async def _set_clock(self) -> None:
        since, server = self.world.now(), self.world.server
        usual = server.off_by
        step = self.random.choice((-1, 1)) * self._some_time()
        server.off_by += timedelta(seconds=step)
        await self._sleep(self._some_time())
        server.off_by = usual
        # what was written under the wrong time is there as long, and who asks for nothing
        # before its next slot believes it until then
        await self._sleep(abs(step) + max(self.lease, 2 * self.interval))
        self.world.trouble(Fault.CLOCK, since)
        self.say("server has the right time again")

    # ---------------------------------------------------------------- what is left in the end

    async def _conclude(self) -> Report:
        """Wait until everything has settled, take the evidence, and stop."""
        world = self.world
        self.say("nothing goes wrong from now on")
        await self._sleep(20 + 3 * self.lease + 2.5 * self.interval)
        evidence = world.evidence()
        unfinished, history = self._unfinished(), self._history()
        for machine in world.machines:
            await machine.stop()
        broken = world.server.watch.broken
        return Report(self.seed, evidence, broken, unfinished, history, self.faults)

    def _history(self) -> list[Attempt]:
        if self.faults["forget"] or self.world.options["history_limit"] < 1000:
            return []
        kept = self.world.server.backend.save().attempts["default"]
        return [attempt for of_job in kept.values() for attempt in of_job.values()]

    def _unfinished(self) -> list[str]:
        """Name the runs of living jobs that should have been taken over or ended by now (L4).

        A run whose end the store forgot is found at the next upkeep, which is too far away.
        """
        world = self.world
        if self.faults["forget"]:
            return []
        now = world.server.now()
        known = {task.name for machine in world.machines for task in machine.tasks}
        patience = timedelta(seconds=3 * self.lease + 1)
        return [
            f"{job}@{run.slot}: {run.state}, attempt {run.attempt}, lease until {run.expires}"
            for job, record in world.server.backend.save().records["default"].items()
            for run in record.runs.values()
            if job in known
            and not run.state.has_ended
            and (run.expires is None or now - run.expires > patience)
        ]
