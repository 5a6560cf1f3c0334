"""Two instances on threads and a real clock, a store that errs, and one who looks on."""

from __future__ import annotations

import math
import threading
from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import TypeVar

from anarchon import RunContext, Scheduler
from anarchon.backends.memory import MemoryBackend
from anarchon.clock import Bell, SystemClock
from anarchon.errors import OutcomeUnknown, StoreError, StoreUnavailable
from anarchon.keeper import Held, Keeper
from anarchon.scheduler.by_leases import ByLeases
from anarchon.store import Reply
from anarchon.testing.passing import Call, PassingBackend

T = TypeVar("T")

#: The whole lease is gone in such an outage, and somebody else may take over.
OUTAGE, OUTAGES_EVERY = 2.0, 8.0


class WatchedClock(SystemClock):
    """The real clock; it knows what each thread read last, and how often a keeper went to wait."""

    def __init__(self) -> None:
        self._read = threading.local()
        self.waits: Counter[str] = Counter()

    def monotonic(self) -> float:
        self._read.last = now = super().monotonic()
        return now

    def last_reading(self) -> float:
        """Return what this thread was told since this was last asked; if nothing, infinity."""
        last: float = getattr(self._read, "last", math.inf)
        self._read.last = math.inf
        return last

    async def wait(self, event: Bell, seconds: float) -> bool:
        self.waits[threading.current_thread().name] += 1
        return await super().wait(event, seconds)


@dataclass(frozen=True)
class RenewCall:
    sent: float
    arrived: float
    answers: dict[str, bool]


class Unruly(PassingBackend):
    """A way to a store that delays, loses replies, refuses, and is away for longer than a lease."""

    def __init__(self, memory: MemoryBackend, seed: int, away_at: float) -> None:
        super().__init__(memory)
        self._random = Random(seed)
        self._lock = threading.Lock()
        self._clock = SystemClock()
        self._began = self._clock.monotonic()
        self._away_at = away_at
        self.is_calm = False
        self.renewals: list[RenewCall] = []
        self.ended: dict[str, float] = {}
        #: How many heartbeats were sent, and how many of them were refused or not answered in time.
        self.heartbeats = Counter[str]()

    async def pass_on(self, verb: str, call: Call[T]) -> T:
        if self.is_calm or verb == "open":
            return await super().pass_on(verb, call)
        if verb != "renew":
            return await self._err(verb, call)
        self.heartbeats["sent"] += 1
        try:
            return await self._err(verb, call)
        except BaseException:
            self.heartbeats["failed"] += 1
            raise

    async def _err(self, verb: str, call: Call[T]) -> T:
        sent = self._clock.monotonic()
        fault, there, back = self._draw()
        await self._clock.sleep(there)
        if fault == "refused" or self._is_away():
            raise StoreUnavailable(self.label, "away")
        if fault == "poisoned" and verb == "renew":
            raise StoreError(self.label, "refused as a whole")
        arrived = self._clock.monotonic()
        reply = await super().pass_on(verb, call)
        self._note(verb, call, reply, sent, arrived)
        await self._clock.sleep(back)
        if fault == "lost":
            raise OutcomeUnknown(self.label, "the reply got lost")
        return reply

    def _is_away(self) -> bool:
        since = (self._clock.monotonic() - self._began - self._away_at) % OUTAGES_EVERY
        return since < OUTAGE

    def _draw(self) -> tuple[str, float, float]:
        random = self._random
        with self._lock:
            kinds = ("none", "lost", "refused", "poisoned", "hangs")
            (fault,) = random.choices(kinds, (85, 5, 5, 2, 3))
            there, back = (random.choice((0.0, 0.0, 0.01, 0.1)) for _ in range(2))
            if fault == "hangs":
                back = 1.0
        return fault, there, back

    def _note(self, verb: str, call: Call[T], reply: T, sent: float, arrived: float) -> None:
        assert isinstance(reply, Reply)
        tokens = [getattr(question, "token", "") for question in call.questions]
        answers = dict(zip(tokens, reply.answers, strict=True)) if tokens else {}
        if verb == "renew":
            self.renewals.append(RenewCall(sent, arrived, answers))
        elif verb in ("finish", "release"):
            now = self._clock.monotonic()
            self.ended.update((token, now) for token, ended in answers.items() if ended)


class Instance:
    """A scheduler whose keeper tells when it is told to forget a token."""

    def __init__(self, memory: MemoryBackend, name: str, seed: int, away_at: float) -> None:
        self.clock = WatchedClock()
        self.way = Unruly(memory, seed, away_at)
        self.scheduler = Scheduler(
            self.way, name=name, clock=self.clock, grace="10s", max_threads=150
        )
        self.dropped: dict[str, float] = {}
        self.held = 0

    @property
    def keeper(self) -> Keeper:
        life = self.scheduler._life
        assert life is not None
        assert isinstance(life.dealings, ByLeases)
        return life.dealings.keeper

    def spy(self) -> None:
        """Note from now on what its keeper is told."""
        keeper, drop, hold = self.keeper, self.keeper.drop, self.keeper.hold

        def noted_drop(held: Held) -> None:
            drop(held)
            self.dropped[held.token] = self.clock.monotonic()

        def noted_hold(held: Held) -> None:
            self.held += 1
            hold(held)

        keeper.drop = noted_drop  # type: ignore[method-assign]
        keeper.hold = noted_hold  # type: ignore[method-assign]


class Watcher:
    """Looks on from a thread of its own, and asks the store itself what it keeps."""

    def __init__(self, memory: MemoryBackend, instances: list[Instance]) -> None:
        self._memory = memory
        self._instances = instances
        self._clock = SystemClock()
        self._end = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._watch, name="watcher")
        self._running: dict[tuple[str, datetime], dict[str, Held]] = defaultdict(dict)
        self.wrong: list[str] = []
        self.seen: Counter[str] = Counter()
        #: By how much this machine lets a thread wake late; the keeper cannot do better.
        self.stall = 0.0
        self.latest_signal = 0.0

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._end.is_set():
            due = self._clock.monotonic() + 0.01
            self._end.wait(0.01)
            self.stall = max(self.stall, self._clock.monotonic() - due)
            for instance in self._instances:
                for held in instance.keeper.held():
                    self._look_at(held)

    def _look_at(self, held: Held) -> None:
        trusted_until = held.trusted_until
        lives = self._lives(held)
        now = self._clock.monotonic()
        self.seen["looks"] += 1
        # an attempt that is over may have been ended in the store, and not be told of it yet
        if now < trusted_until and not lives and not held.over:
            self.wrong.append(f"trusted, and not its own in the store: {held}")
        if now > trusted_until and not held.over and not held.signal.is_set():
            self.latest_signal = max(self.latest_signal, now - trusted_until)

    def _lives(self, held: Held) -> bool:
        space = self._memory._namespaces["default"]
        with space.lock:
            run = space.records[held.job].runs.get(held.slot)
            return (
                run is not None and run.token == held.token and run.is_busy_at(self._memory._now())
            )

    def begins(self, instance: Instance, ctx: RunContext) -> None:
        """Be told of a body by its own thread, in its first line."""
        read = instance.clock.last_reading()
        held = instance.keeper._held.get(ctx.token)
        with self._lock:
            self.seen["bodies"] += 1
            self.seen["takeovers"] += ctx.attempt > 1
            if held is None or read >= held.trusted_until:
                self.wrong.append(f"begun when its trust had ended: {ctx}")
                return
            for other in self._running[ctx.job, ctx.slot].values():
                self.seen["bodies beside a former one"] += 1
                if other.is_trusted_at(self._clock.monotonic()):
                    self.wrong.append(f"begun beside one that trusts its lease: {ctx}")
            self._running[ctx.job, ctx.slot][ctx.token] = held

    def ends(self, ctx: RunContext) -> None:
        with self._lock:
            self.seen["told to end"] += ctx.signal.reason == "lease_lost"
            self._running[ctx.job, ctx.slot].pop(ctx.token, None)
