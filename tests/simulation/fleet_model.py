"""A small world around the real rules: instances, a network, and time that jumps from slot to slot.

Every claim, finish, release and prune here is a call of ``anarchon.rules``. The world adds
what the rules cannot see: instances that die or freeze at any step, replies that get lost,
requests that arrive late or twice, a clock that runs ahead, and pruning at any moment.

Leases are far away until a step lets one lapse. Time is the *phase*: in phase ``n`` slot ``n``
is in time, older ones are late, newer ones are not due.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from anarchon import rules
from anarchon.rules import JobRecord, Run
from anarchon.run import Overlap, RunState
from anarchon.store import Claim, Finish, Mode, Outcome, Release, Terms

T = TypeVar("T")

ZERO = datetime(2026, 1, 1, tzinfo=UTC)
STEP, WITHIN = timedelta(seconds=100), timedelta(seconds=50)
FAR, PAST = ZERO + timedelta(days=9), ZERO - timedelta(days=9)
FLOOR = ZERO - STEP

ClaimRule = Callable[[JobRecord, Claim, datetime], rules.Step[Any]]
FinishRule = Callable[[JobRecord, Finish, datetime], rules.Step[Any]]


def slot_of(number: int) -> datetime:
    return ZERO + number * STEP


def time_of(phase: int) -> datetime:
    return slot_of(phase) + timedelta(seconds=1)


@dataclass(frozen=True)
class Stored:
    """A job's record in a form that can be compared: runs by slot number, times by what counts."""

    floor: datetime
    runs: tuple[Run | None, ...]

    def record(self) -> JobRecord:
        runs = {run.slot: run for run in self.runs if run is not None}
        return JobRecord(floor=self.floor, runs=runs)

    def after(self, record: JobRecord, now: datetime) -> Stored:
        def settled(run: Run | None) -> Run | None:
            if run is None:
                return None
            expires = None if run.expires is None else FAR if run.expires > now else PAST
            return replace(run, expires=expires, fence=0, started=ZERO, instance="")

        runs = tuple(settled(record.runs.get(slot_of(n))) for n in range(len(self.runs)))
        return Stored(record.floor, runs)


@dataclass(frozen=True)
class Local:
    """What one instance knows of one slot: idle, sent, unknown, watch, run or off."""

    knows: str = "idle"
    token: str | None = None


@dataclass(frozen=True, order=True)
class Wire:
    """A claim on its way to the store."""

    instance: int
    slot: int
    token: str
    mode: Mode
    again: bool = False


@dataclass(frozen=True)
class World:
    phase: int
    stored: Stored
    up: tuple[str, ...]
    local: tuple[tuple[Local, ...], ...]
    wire: frozenset[Wire]
    faults: int
    tokens: int
    finished: frozenset[int]
    broken: str | None = None


@dataclass(frozen=True)
class Model:
    """The world's size and what may go wrong in it; ``claim`` and ``finish`` may be flawed ones."""

    instances: int = 2
    slots: int = 1
    faults: int = 1
    tokens: int = 5
    max_attempts: int = 3
    overlap: Overlap = Overlap.SKIP
    fast_clock: bool = False
    stops: bool = False
    claim: ClaimRule = rules.claim
    finish: FinishRule = rules.finish
    raises_floor: bool = True

    def start(self) -> World:
        return World(
            phase=0,
            stored=Stored(FLOOR, (None,) * self.slots),
            up=("up",) * self.instances,
            local=((Local(),) * self.slots,) * self.instances,
            wire=frozenset(),
            faults=self.faults,
            tokens=0,
            finished=frozenset(),
        )

    def steps(self, world: World) -> Iterator[tuple[str, World]]:
        if world.phase < self.slots:
            yield f"time: slot {world.phase} is over", replace(world, phase=world.phase + 1)
        yield from self._store_steps(world)
        for instance in range(self.instances):
            if world.up[instance] == "frozen":
                yield f"{instance} thaws", replace(world, up=_put(world.up, instance, "up"))
            if world.up[instance] != "up":
                continue
            for slot in range(self.slots):
                yield from self._instance_steps(world, instance, slot)
            if world.faults:
                less = replace(world, faults=world.faults - 1)
                for fate in ("dead", "frozen"):
                    yield f"{instance} is {fate}", replace(less, up=_put(world.up, instance, fate))
        for request in world.wire:
            yield from self._arrivals(world, request)

    def _store_steps(self, world: World) -> Iterator[tuple[str, World]]:
        now = time_of(world.phase)
        for slot, run in enumerate(world.stored.runs):
            if run is None:
                continue
            if run.state.has_ended:
                pruned = rules.prune(world.stored.record(), slot_of(slot)).record
                if not self.raises_floor:
                    pruned = replace(pruned, floor=world.stored.floor)
                yield f"prune up to {slot}", replace(world, stored=world.stored.after(pruned, now))
            elif run.is_busy_at(now) and not self._is_kept(world, slot, run):
                lapsed = replace(run, expires=PAST)
                runs = _put(world.stored.runs, slot, lapsed)
                yield (
                    f"lease of {slot} lapses",
                    replace(world, stored=replace(world.stored, runs=runs)),
                )

    def _is_kept(self, world: World, slot: int, run: Run) -> bool:
        return any(
            world.up[i] == "up" and world.local[i][slot] == Local("run", run.token)
            for i in range(self.instances)
        )

    def _instance_steps(
        self, world: World, instance: int, slot: int
    ) -> Iterator[tuple[str, World]]:
        local = world.local[instance][slot]
        fresh = f"{instance}.{world.tokens}"
        ahead = self.fast_clock and instance == 0
        if local.knows == "idle" and world.phase > slot:
            yield f"{instance} finds {slot} late", self._know(world, instance, slot, Local("watch"))
        elif local.knows == "idle" and (world.phase == slot or ahead):
            yield from self._send(world, instance, slot, fresh, Mode.SCHEDULED)
        if local.knows == "watch":
            yield from self._send(world, instance, slot, fresh, Mode.TAKEOVER)
        if local.knows == "unknown" and local.token is not None:
            sent = Wire(instance, slot, local.token, Mode.SCHEDULED, again=True)
            waiting = self._know(world, instance, slot, Local("sent", local.token))
            yield f"{instance} asks again for {slot}", replace(waiting, wire=world.wire | {sent})
        if local.knows == "run" and local.token is not None:
            yield from self._endings(world, instance, slot, local.token)

    def _send(
        self, world: World, instance: int, slot: int, token: str, mode: Mode
    ) -> Iterator[tuple[str, World]]:
        if world.tokens == self.tokens:
            return
        sent = Wire(instance, slot, token, mode)
        waiting = self._know(world, instance, slot, Local("sent", token))
        yield (
            f"{instance} claims {slot} as {token} ({mode})",
            replace(waiting, wire=world.wire | {sent}, tokens=world.tokens + 1),
        )

    def _endings(
        self, world: World, instance: int, slot: int, token: str
    ) -> Iterator[tuple[str, World]]:
        now, record = time_of(world.phase), world.stored.record()
        asked = Finish("job", slot_of(slot), token, RunState.SUCCESS)
        step = self.finish(record, asked, now)
        after = replace(world, stored=world.stored.after(step.record, now))
        if not step.answer:
            told = self._know(after, instance, slot, Local("watch"))
            yield f"{instance} may not finish {slot}", told
        else:
            held = record.runs[slot_of(slot)]
            broken = "G4: a former token ended a run" if held.token != token else None
            broken = "G2: a slot finished twice" if slot in world.finished else broken
            told = self._know(after, instance, slot, Local("off"))
            ended = replace(told, finished=world.finished | {slot}, broken=world.broken or broken)
            yield f"{instance} finishes {slot}", ended
        if self.stops:
            freed = rules.release(record, Release("job", slot_of(slot), token), now)
            left = replace(
                self._know(world, instance, slot, Local("off")),
                stored=world.stored.after(freed.record, now),
                up=_put(world.up, instance, "stopped"),
            )
            yield f"{instance} stops and releases {slot}: {freed.answer}", left

    def _arrivals(self, world: World, request: Wire) -> Iterator[tuple[str, World]]:
        now, slot, instance = time_of(world.phase), request.slot, request.instance
        begins = Terms(timedelta(seconds=15), self.overlap, self.max_attempts, RunState.RUNNING)
        asked = Claim("job", slot_of(slot), request.token, request.mode, "", begins, WITHIN)
        step = self.claim(world.stored.record(), asked, now)
        outcome = step.answer.outcome
        broken = world.broken
        if outcome is Outcome.WON and slot in world.finished:
            broken = "G2: a finished slot was won again"
        after = replace(
            world,
            stored=world.stored.after(step.record, now),
            wire=world.wire - {request},
            broken=broken,
        )
        label = f"store: {request.token} for {slot} ({request.mode}) is {outcome}"
        if world.local[instance][slot] != Local("sent", request.token):
            yield f"{label}, and nobody waits for it", after
            return
        yield label, self._know(after, instance, slot, self._told(request, outcome, world.phase))
        if not world.faults:
            return
        missed = Local("unknown", request.token)
        if request.mode is Mode.TAKEOVER:
            missed = Local("watch")
        less = replace(after, faults=world.faults - 1)
        yield f"{label}, the reply is lost", self._know(less, instance, slot, missed)
        if request.mode is Mode.SCHEDULED and not request.again:
            waits = replace(world, faults=world.faults - 1)
            gave_up = self._know(waits, instance, slot, missed)
            yield f"{instance} waits no longer for {request.token}", gave_up

    def _told(self, request: Wire, outcome: Outcome, phase: int) -> Local:
        if outcome is Outcome.WON:
            return Local("run", request.token)
        late = phase > request.slot
        if outcome is Outcome.DONE or (outcome in (Outcome.NONE, Outcome.LATE) and late):
            return Local("off")
        return Local("idle") if outcome is Outcome.NONE and phase < request.slot else Local("watch")

    @staticmethod
    def _know(world: World, instance: int, slot: int, local: Local) -> World:
        mine = _put(world.local[instance], slot, local)
        return replace(world, local=_put(world.local, instance, mine))

    def broken(self, world: World) -> str | None:
        if world.broken is not None:
            return world.broken
        now = time_of(world.phase)
        busy = [run.slot for run in world.stored.runs if run is not None and run.is_busy_at(now)]
        if len(busy) > 1 and self.overlap is Overlap.SKIP:
            return "G3: two runs of a job are busy"
        return self._orphan(world)

    def _orphan(self, world: World) -> str | None:
        """Name a run that has not ended, and that nobody living holds or watches at rest."""
        living = [i for i in range(self.instances) if world.up[i] == "up"]
        at_rest = not world.wire and world.phase == self.slots and "frozen" not in world.up
        if not living or not at_rest or world.tokens == self.tokens:
            return None
        for slot, run in enumerate(world.stored.runs):
            if run is None or run.state.has_ended or run.expires == FAR:
                continue
            if all(world.local[i][slot].knows == "off" for i in living):
                return f"G6: nobody watches slot {slot}"
        return None


def _put(values: tuple[T, ...], index: int, value: T) -> tuple[T, ...]:
    return (*values[:index], value, *values[index + 1 :])
