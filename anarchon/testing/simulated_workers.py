"""A broker and workers in virtual time, for tracked runs: both lie and die as real ones do.

The broker brings a message late, twice or never, and again when its worker has died, or has
not said for a while that it is done. A worker asks to begin, keeps its run alive, and ends it
as ``anarchon.tracked`` says. What it did is written down outside the store.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from anarchon.action import Publisher
from anarchon.asking import Asking
from anarchon.errors import StoreError
from anarchon.keeper import margin
from anarchon.run import RunContext, RunState
from anarchon.store import Begin, Finish, Renewal, Waiting
from anarchon.testing.lying_store import LyingLink
from anarchon.testing.manual_clock import InstanceClock
from anarchon.testing.simulator import Machine, Task, World


@dataclass(frozen=True, slots=True)
class Message:
    """What stands in the broker: a run, and the number of the retry it is for."""

    ctx: RunContext
    name: str
    retry: int = 0


@dataclass(frozen=True, slots=True)
class Chore:
    """What one start of a task will do: how long it takes, and whether it fails or retries."""

    length: float
    raises: bool = False
    retries_after: float | None = None


@dataclass(slots=True)
class Done:
    """One start of a task, as the worker wrote it down.

    ``trusted_until`` is until when it surely had the run; ``outcome`` is ``None`` as long as it
    works, or if it died.
    """

    message: Message
    worker: str
    started: datetime
    trusted_until: datetime
    ended: datetime | None = None
    outcome: str | None = None

    @property
    def busy_until(self) -> datetime:
        """Return until when nobody else may have worked."""
        return self.trusted_until if self.ended is None else min(self.ended, self.trusted_until)


@dataclass
class Broker:
    """One queue, and the workers that take from it; ``badness`` is the share of bad sends."""

    world: World
    chore: Callable[[], Chore]
    lease: float
    badness: float = 0.0
    is_down: bool = False
    done: list[Done] = field(default_factory=list)
    refused: int = 0
    sent: int = 0
    workers: list[Worker] = field(default_factory=list)
    _waiting: list[Message] = field(default_factory=list)
    _names: itertools.count[int] = field(default_factory=itertools.count)

    def publisher(self, machine: Machine, task: Task) -> Publisher:
        """Return what sends to here from a machine."""
        return _Sender(self, machine, task.name)

    def send(self, message: Message, after: float = 0.0) -> None:
        """Take a message, to be brought after so many seconds."""
        self.sent += 1
        self.world.clock.call_later(after, lambda: self._bring(message))

    def name(self) -> str:
        """Return a name for a message that no other has."""
        return f"message {next(self._names)}"

    def _bring(self, message: Message) -> None:
        random = self.world.random
        able = [worker for worker in self.workers if not worker.is_dead]
        if not able or self.is_down:
            self._waiting.append(message)
            return
        random.choice(able).take(message)

    def bring_all(self) -> None:
        """Bring what waits for a worker, or for the broker to come up."""
        waiting, self._waiting = self._waiting, []
        for message in waiting:
            self._bring(message)


class _Sender:
    sends_to = "simulation"

    def __init__(self, broker: Broker, machine: Machine, task: str) -> None:
        self._broker = broker
        self._machine = machine
        self.task = task

    def publish(self, ctx: RunContext) -> str:
        broker, random = self._broker, self._broker.world.random
        if broker.is_down:
            raise ConnectionError("the broker is down, as the simulation wants it")
        message = Message(ctx, broker.name())
        fate = random.randrange(6) if random.random() < broker.badness else None
        if fate == 0:
            raise TimeoutError("it did not arrive")
        after = random.random() * 3 * broker.lease if fate == 1 else random.random() * 0.01
        if fate == 2:
            return message.name  # the broker lost it, and had said that it had it
        broker.send(message, after)
        if fate == 3:
            raise TimeoutError("it arrived, and nobody said so")
        if fate == 4:
            broker.send(message, random.random() * 2 * broker.lease)
        if fate == 5:
            # right between the send and the mark
            self._machine.freeze()
            length = random.random() * 3 * broker.lease
            machine, instance = self._machine, self._machine.instance
            broker.world.clock.call_later(
                length, lambda: machine.thaw() if machine.instance == instance else None
            )
        return message.name


class Worker:
    """A worker with any number of places; it freezes, thaws, and dies."""

    def __init__(self, broker: Broker, name: str) -> None:
        self.broker = broker
        self.name = name
        self.clock = InstanceClock(broker.world.clock)
        self.link = LyingLink(broker.world.server, self.clock, broker.world.random)
        self.is_dead = False
        self._asking = Asking(self.link.connect("default"), self.clock)
        self._keeping = self.link.connect("default")
        self._tasks: set[asyncio.Task[None]] = set()
        self._nonces = itertools.count()
        self._unacked: dict[int, Message] = {}
        broker.workers.append(self)
        broker.bring_all()

    def take(self, message: Message) -> None:
        """Be brought a message; who is frozen notices when it thaws."""
        number = next(self._nonces)
        self._unacked[number] = message
        # a broker waits only so long to hear that it is done
        wait = self.broker.lease * self.broker.world.random.uniform(4, 40)
        self.broker.world.clock.call_later(wait, lambda: self._bring_again(number))
        self.clock.call_later(0.001, lambda: self._begin_work(number, message))

    def kill(self) -> None:
        """End without a word; the broker notices, and brings its messages to others."""
        self.is_dead = True
        self.clock.freeze()
        self.link.cut = True
        for number in list(self._unacked):
            self._bring_again(number)

    def _bring_again(self, number: int) -> None:
        message = self._unacked.pop(number, None)
        if message is not None:
            self.broker.send(message, self.broker.world.random.random())

    def _begin_work(self, number: int, message: Message) -> None:
        work = self._work(number, message)
        task = asyncio.create_task(work, name=f"worker-{self.name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work(self, number: int, message: Message) -> None:
        ctx, nonce = message.ctx, f"{self.name} {number}"
        assert ctx.tracking is not None, "only tracked runs come here"
        lease = ctx.tracking.lease.total_seconds()
        asked = Begin(ctx.job, ctx.slot, ctx.token, message.retry, nonce, self.name, message.name)
        until = self.clock.monotonic() + 2 * lease
        try:
            answered = await self._asking.begin(
                asked, deadline=lease / 3, give_up=lambda: self.clock.monotonic() > until
            )
        except StoreError:
            if self._unacked.pop(number, None) is not None:
                self.broker.send(message, lease)
            return
        if not answered.answer:
            self.broker.refused += 1
        else:
            await self._start(message, nonce, answered.asked_at)
        self._unacked.pop(number, None)

    async def _start(self, message: Message, nonce: str, asked_at: float) -> None:
        world, ctx = self.broker.world, message.ctx
        assert ctx.tracking is not None, "only tracked runs come here"
        safe = ctx.tracking.lease - margin(ctx.tracking.lease)
        trusted = _Trust(asked_at + safe.total_seconds())
        if self.clock.monotonic() >= trusted.until:
            return  # the answer took so long that somebody else may have it
        done = Done(message, self.name, world.now(), world.now())
        trusted.note(done, world)
        self.broker.done.append(done)
        keeping = asyncio.create_task(self._keep(message, trusted, done, safe))
        try:
            await self._labour(message, nonce, trusted, done)
        finally:
            keeping.cancel()

    async def _labour(self, message: Message, nonce: str, trusted: _Trust, done: Done) -> None:
        chore, clock = self.broker.chore(), self.clock
        end = clock.monotonic() + chore.length
        while clock.monotonic() < end and not self._has_lost(trusted):
            await clock.sleep(min(0.05 * self.broker.lease, end - clock.monotonic()))
        if self._has_lost(trusted):
            done.ended, done.outcome = self.broker.world.now(), "gave up"
            return
        done.ended = self.broker.world.now()
        if chore.retries_after is not None:
            done.outcome = "retry"
            await self._retry(message, nonce, chore.retries_after)
        else:
            state = RunState.FAILED if chore.raises else RunState.SUCCESS
            done.outcome = state.value
            await self._finish(message, nonce, state)

    def _has_lost(self, trusted: _Trust) -> bool:
        return trusted.is_over or self.clock.monotonic() >= trusted.until

    async def _retry(self, message: Message, nonce: str, delay: float) -> None:
        ctx, retry = message.ctx, message.retry + 1
        self.broker.send(Message(ctx, self.broker.name(), retry), delay)
        waiting = Waiting(nonce, retry, timedelta(seconds=delay))
        mark = Renewal(ctx.job, ctx.slot, ctx.token, waiting=waiting)
        await self._tell(self._asking.mark, mark)

    async def _finish(self, message: Message, nonce: str, state: RunState) -> None:
        ctx = message.ctx
        finish = Finish(ctx.job, ctx.slot, ctx.token, state, message.name, nonce)
        await self._tell(self._asking.finish, finish)

    async def _tell(self, ask: Callable[..., object], question: object) -> None:
        until = self.clock.monotonic() + 20 * self.broker.lease
        asked: object = ask(
            question,
            deadline=self.broker.lease / 3,
            give_up=lambda: self.clock.monotonic() > until,
        )
        try:
            await asked  # type: ignore[misc]  # one of two questions
        except StoreError:
            pass  # then it lapses

    async def _keep(self, message: Message, trusted: _Trust, done: Done, safe: timedelta) -> None:
        ctx, clock = message.ctx, self.clock
        heartbeat = self.broker.lease / 3
        renewal = Renewal(ctx.job, ctx.slot, ctx.token, self.name)
        while not trusted.is_over:
            await clock.sleep(heartbeat)
            asked_at = clock.monotonic()
            try:
                async with clock.timeout(heartbeat):
                    [renewed] = (await self._keeping.renew([renewal])).answers
            except (StoreError, TimeoutError):
                continue
            if renewed:
                trusted.until = max(trusted.until, asked_at + safe.total_seconds())
                trusted.note(done, self.broker.world)
            else:
                trusted.is_over = True


@dataclass(slots=True)
class _Trust:
    until: float
    is_over: bool = False

    def note(self, done: Done, world: World) -> None:
        """Write down until when the work has its run, by the true time."""
        left = timedelta(seconds=self.until - world.clock.monotonic())
        done.trusted_until = max(done.trusted_until, world.now() + left)
