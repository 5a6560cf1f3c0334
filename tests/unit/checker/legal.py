"""Histories that keep every promise: a small fleet, stepped through time, on a perfect store.

It is the protocol once more, as short as it can be said, and shares nothing with the checker.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from anarchon.job import Job, define
from anarchon.run import RunContext
from anarchon.schedules import Every
from anarchon.testing import Body, Evidence, Fault, Life, Trouble

EPOCH = datetime(2026, 3, 1, tzinfo=UTC)
STEP = 0.25
PATIENCE = timedelta(seconds=1)
_HEARTBEAT, _LEASE, _MARGIN = 5.0, 15.0, 1.5
_CATCH_UP = 300.0


def at(seconds: float) -> datetime:
    return EPOCH + timedelta(seconds=seconds)


def fence_at(seconds: float) -> int:
    """Return the fence of a claim at that moment, by a store whose clock is right."""
    return round(EPOCH.timestamp() * 1000) + int(seconds * 1000)


async def work(ctx: RunContext) -> None:
    """Never called: bodies are made up here."""


class Mailer:
    task = "send"
    sends_to = "nowhere"

    def publish(self, ctx: RunContext) -> str:
        return ""


def job(every: float = 60, *, overlap: str = "skip", publishes: bool = False, **options) -> Job:
    action = Mailer() if publishes else work
    return define("sync", Every(every), action, {"overlap": overlap, **options})


@dataclass
class Run:
    """What the store knows of a slot."""

    slot: float
    attempt: int = 0
    holder: int | None = None
    fence: int = 0
    expires: float = -1.0
    ended: bool = False
    lapses: int = 0

    def busy(self, now: float) -> bool:
        return not self.ended and self.holder is not None and self.expires > now


@dataclass
class Working:
    """A body under way, and the lease as its instance knows it."""

    run: Run
    attempt: int
    number: int
    ends: float
    renewed: float
    over: bool = False
    interrupted: bool = False


@dataclass
class Instance:
    name: str
    start: float
    end: float | None
    killed: bool
    frozen: list[tuple[float, float]]
    cut: list[tuple[float, float]]
    armed: float = -1.0
    wakes: float = -1.0
    asking: dict[float, float] = field(default_factory=dict)
    watched: dict[float, float] = field(default_factory=dict)
    working: list[Working] = field(default_factory=list)
    last_reached: float | None = None
    catching: tuple[float, float] | None = None
    next_step: float = 0.0

    def is_frozen(self, now: float) -> bool:
        return any(a <= now < b for a, b in self.frozen)

    def reaches(self, now: float) -> bool:
        return not any(a <= now < b for a, b in self.cut)


class Fleet:
    """Steps a fleet through a plan of lives and troubles, and writes down what ran."""

    def __init__(
        self,
        seed: int,
        *,
        every: float,
        skip: bool,
        publishes: bool,
        length: float,
        longest_body: float,
    ) -> None:
        self.random = random.Random(seed)
        self.every, self.skip, self.publishes = every, skip, publishes
        self.length, self.longest_body = length, longest_body
        overlap = "skip" if skip else "allow"
        self.job = job(every, overlap=overlap, publishes=publishes)
        self.late = min(_CATCH_UP, every)
        self.runs: dict[float, Run] = {}
        self.bodies: list[Body] = []
        self.floor: float | None = None
        self.skipped: set[float] = set()
        self.fence = 0
        self.away: list[tuple[float, float]] = []
        self.instances: list[Instance] = []
        self._plan()

    def _spans(self, count: int, longest: float) -> list[tuple[float, float]]:
        rng = self.random
        return [
            (start, start + rng.uniform(0.5, longest))
            for start in (rng.uniform(0, self.length) for _ in range(rng.randint(0, count)))
        ]

    def _plan(self) -> None:
        rng = self.random
        for number in range(rng.randint(1, 3)):
            start = rng.choice([0.0, rng.uniform(0, 20)])
            life = 0
            while start < self.length and life < 6:
                end = start + rng.expovariate(1 / 150) if rng.random() < 0.7 else None
                if end is not None and end > self.length:
                    end = None
                self.instances.append(
                    Instance(
                        f"web-{number}.{life}",
                        # ready when it has asked the store, and that is at a step
                        math.ceil(start / STEP) * STEP,
                        end,
                        rng.random() < 0.6,
                        self._spans(1, 50),
                        self._spans(1, 50),
                    )
                )
                if end is None:
                    break
                start = end + rng.choice([0.5, rng.uniform(0.5, 100)])
                life += 1
        self.away = self._spans(1, 80)

    def play(self) -> Evidence:
        there = list(self.instances)
        for step in range(int(self.length / STEP)):
            now = step * STEP
            for instance in there:
                if now >= instance.next_step:
                    self._step(instance, now)
                    instance.next_step = self._next_step(instance, now)
            if step % 40 == 0:
                self.random.shuffle(there)
                there = [i for i in there if i.end is None or i.end + 60 > now or i.working]
        return self._evidence()

    def _next_step(self, one: Instance, now: float) -> float:
        if now < one.start:
            return one.start
        if one.working or one.last_reached != now:
            return now
        needs = [one.wakes, *one.watched.values(), one.end if one.end is not None else one.wakes]
        needs += [one.catching[1]] if one.catching is not None else []
        # at the end of a trouble it looks around
        needs += [b for _, b in (*one.frozen, *one.cut, *self.away) if b > now]
        return min(needs)

    def _was_gone(self, one: Instance, now: float) -> bool:
        since = one.last_reached
        return since is None or any(
            min(b, now) - max(a, since) > _LEASE for a, b in (*one.frozen, *one.cut, *self.away)
        )

    def _step(self, one: Instance, now: float) -> None:
        if now < one.start or (one.end is not None and one.killed and now >= one.end):
            return
        if one.is_frozen(now):
            return
        stopping = one.end is not None and now >= one.end
        self._work(one, now, stopping)
        if not one.reaches(now) or any(a <= now < b for a, b in self.away):
            return
        gone = self._was_gone(one, now)
        one.last_reached = now
        self._settle(one, now)
        if stopping:
            return
        if gone:
            self._recover(one, now)
        self._fire(one, now)
        for slot in [slot for slot, look in one.watched.items() if look <= now]:
            del one.watched[slot]
            self._look(one, slot, now)

    def _work(self, one: Instance, now: float, stopping: bool) -> None:
        for held in one.working:
            if held.over:
                continue
            if stopping or now >= held.renewed + _LEASE - _MARGIN:
                held.over = held.interrupted = True
                self._write(held, ended=now, failed=True)
            elif now >= held.ends:
                held.over = True
                self._write(held, ended=now)

    def _write(self, held: Working, **fields) -> None:
        body = self.bodies[held.number]
        values = {name: getattr(body, name) for name in Body.__slots__}
        if "ended" in fields:
            values["ended"] = at(fields["ended"])
        values["failed"] = fields.get("failed", False)
        self.bodies[held.number] = Body(**values)

    def _settle(self, one: Instance, now: float) -> None:
        for held in list(one.working):
            run = held.run
            mine = run.attempt == held.attempt and run.holder is not None and not run.ended
            if held.over:
                one.working.remove(held)
                if mine and held.interrupted:
                    run.holder, run.expires = None, -1.0
                    self._watch(one, run.slot, now)
                elif mine:
                    run.ended = True
                else:
                    self._watch(one, run.slot, now)  # whoever has it now may die of it, too
            elif mine and run.busy(now):
                if now - held.renewed >= _HEARTBEAT:
                    run.expires, held.renewed = now + _LEASE, now
            elif now - held.renewed >= _HEARTBEAT:
                held.over = held.interrupted = True
                self._write(held, ended=now, failed=True)

    def _recover(self, one: Instance, now: float) -> None:
        if self.floor is None:
            self.floor = now
        newest = now // self.every * self.every
        for run in list(self.runs.values()):
            if run.ended:
                continue
            if run.busy(now):
                self._watch(one, run.slot, now)
            elif run.slot >= newest or not self.skip:
                self._look(one, run.slot, now)
        fresh = one.armed < 0
        first = newest + self.every if fresh else one.armed
        while first + self.late < now:
            first += self.every
        self._arm(one, first)
        missed = fresh or now - newest > self.late
        at_newest = self.runs.get(newest)
        unfinished = at_newest is not None and not at_newest.ended
        if missed and newest > self.floor and now - newest < _CATCH_UP and not unfinished:
            one.catching = (newest, now + self.random.uniform(0, 0.5))

    def _arm(self, one: Instance, slot: float) -> None:
        one.armed = slot
        one.wakes = slot + self.random.uniform(0, min(0.5, self.every / 10))

    def _fire(self, one: Instance, now: float) -> None:
        if one.catching is not None and one.catching[1] <= now:
            slot, one.catching = one.catching[0], None
            if now - slot <= _CATCH_UP:
                self._claim(one, slot, now, catching_up=True)
        while one.wakes <= now:
            slot = one.armed
            self._arm(one, slot + self.every)
            if now - slot <= self.late:
                self._claim(one, slot, now)
            else:
                self._watch(one, slot, now)

    def _claim(self, one: Instance, slot: float, now: float, catching_up: bool = False) -> None:
        run = self.runs.get(slot)
        if run is not None:
            if not run.ended:
                self._watch(one, slot, now)
            return
        if self.floor is None or slot <= self.floor or (catching_up and slot in self.skipped):
            return
        if self.skip:
            others = [run for run in self.runs.values() if not run.ended]
            for other in others:
                if other.busy(now):
                    self.skipped.add(slot)
                    self._watch(one, other.slot, now)
                    return
            for other in others:
                other.ended = True
        self._start(one, self.runs.setdefault(slot, Run(slot)), now)

    def _look(self, one: Instance, slot: float, now: float) -> None:
        run = self.runs.get(slot)
        if run is None:
            if now <= slot + self.late:
                self._watch(one, slot, now)
            return
        if run.ended:
            return
        others = [r for r in self.runs.values() if r is not run and r.busy(now)]
        if run.busy(now) or (self.skip and others):
            self._watch(one, slot, now)
            return
        run.lapses += run.holder is not None
        if run.lapses >= 3:
            run.ended = True
            return
        self._start(one, run, now)

    def _watch(self, one: Instance, slot: float, now: float) -> None:
        one.watched.setdefault(slot, now + self.random.uniform(1, 2) * _HEARTBEAT)

    def _start(self, one: Instance, run: Run, now: float) -> None:
        self.fence = max(self.fence + 1, fence_at(now))
        run.attempt += 1
        run.holder, run.fence, run.expires = self.instances.index(one), self.fence, now + _LEASE
        longest = 0.0 if self.publishes else self.random.choice([2.0, self.longest_body])
        ends = now + self.random.uniform(0, longest)
        ended = at(now) if self.publishes else None
        body = Body("sync", at(run.slot), run.attempt, run.fence, one.name, at(now), ended)
        self.bodies.append(body)
        held = Working(run, run.attempt, len(self.bodies) - 1, ends, now, over=self.publishes)
        one.working.append(held)

    def _evidence(self) -> Evidence:
        lives, troubles = [], []
        for one in self.instances:
            end = None if one.end is None else at(one.end)
            lives.append(Life(one.name, [self.job], at(one.start), end, one.killed))
            for fault, spans in ((Fault.FROZEN, one.frozen), (Fault.CUT, one.cut)):
                troubles += [Trouble(fault, at(a), at(b), one.name) for a, b in spans]
        troubles += [Trouble(Fault.AWAY, at(a), at(b)) for a, b in self.away]
        return Evidence(lives, self.bodies, troubles, at(self.length))


def legal(
    seed: int,
    *,
    every: float = 60,
    skip: bool = True,
    publishes: bool = False,
    length: float = 600,
    longest_body: float = 40,
) -> Evidence:
    """Return a history with kills, stops, freezes, cuts and outages that keeps every promise."""
    return Fleet(
        seed,
        every=every,
        skip=skip,
        publishes=publishes,
        length=length,
        longest_body=longest_body,
    ).play()
