"""A broker for the tests: what was sent, by whom and when; down when the test says so.

And a worker that asks the store about what was sent.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from anarchon.clock import Clock
from anarchon.run import RunContext, RunState
from anarchon.scheduler import Scheduler
from anarchon.schedules import Every
from anarchon.store import Begin, Finish, Renewal, Reply, Waiting
from anarchon.testing import ClaimFleet, Fleet, ManualClock


@dataclass
class Broker:
    """A publisher whose messages are there to be read; each member is given the same one."""

    clock: ManualClock
    task: str = "proj.send"
    sends_to: str = "nowhere"
    down: bool = False
    #: Instances that cannot reach it.
    cut_off: set[str] = field(default_factory=set)
    #: Confirmations that get lost after the message was queued.
    unconfirmed: int = 0
    sent: list[tuple[float, RunContext]] = field(default_factory=list)
    tries: int = 0
    before: Callable[[RunContext], object] = lambda ctx: None
    #: Called when the message is there and nobody has been told so.
    after: Callable[[RunContext], object] = lambda ctx: None

    def publish(self, ctx: RunContext) -> str:
        self.tries += 1
        self.before(ctx)
        if self.down or ctx.instance in self.cut_off:
            raise ConnectionError("the broker is away")
        self.sent.append((self.clock.monotonic(), ctx))
        self.after(ctx)
        if self.unconfirmed > 0:
            self.unconfirmed -= 1
            raise TimeoutError("no confirmation")
        return f"message {len(self.sent)}"


class AtOnce(Executor):
    """A pool that does in submit() what it is given: no thread to wait for."""

    def submit(self, work: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(work(*args, **named))
        except BaseException as error:
            done.set_exception(error)
        return done


class InLine(Executor):
    """A pool that does nothing until it is told to: its thread is busy elsewhere."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, work: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        self._waiting.append((done, functools.partial(work, *args, **named)))
        return done

    def work_off(self) -> int:
        """Do all that waits, and return how much it was."""
        waiting, self._waiting = self._waiting, []
        for done, work in waiting:
            done.set_result(work())
        return len(waiting)


def without_threads(fleet: Fleet | ClaimFleet, pool: Executor | None = None) -> None:
    """Make the members of a running fleet publish on the loop; at once, without a pool given."""
    for member in fleet.members:
        life = member.scheduler._life
        if life is not None:
            life.executor.outbox.thread = pool or AtOnce()


def tracked_job(
    broker: Broker, interval: str = "10m", **options: Any
) -> Callable[[Scheduler, Clock], object]:
    """Return what declares one tracked job, "send"."""

    def declare(scheduler: Scheduler, clock: Clock) -> object:
        settled = {"jitter": 0, "track": True, **options}
        return scheduler.add("send", Every(interval), broker, **settled)

    return declare


class Worker:
    """What a worker with the integration asks the store; a message a time, in this very moment."""

    def __init__(self, fleet: Fleet, name: str = "pod 1") -> None:
        self._store = fleet.backend.connect("default")
        self._clock = fleet.clock
        self.name = name

    def begin(self, ctx: RunContext, *, retry: int = 0, nonce: str = "first") -> bool:
        begin = Begin(ctx.job, ctx.slot, ctx.token, retry, nonce, self.name, f"id of {nonce}")
        return _answer(self._store.begin([begin]))

    def renew(self, ctx: RunContext) -> bool:
        renewal = Renewal(ctx.job, ctx.slot, ctx.token, self.name)
        return _answer(self._store.renew([renewal]))

    async def keep(self, ctx: RunContext, heartbeats: int) -> None:
        """Keep the run alive for so many heartbeats of 5 s."""
        for _ in range(heartbeats):
            await self._clock.advance(5)
            assert self.renew(ctx)

    def retry(self, ctx: RunContext, delay: timedelta, *, nonce: str = "first") -> bool:
        waiting = Waiting(nonce, 1, delay)
        renewal = Renewal(ctx.job, ctx.slot, ctx.token, self.name, waiting)
        return _answer(self._store.renew([renewal]))

    def finish(
        self, ctx: RunContext, state: RunState = RunState.SUCCESS, *, nonce: str = "first"
    ) -> bool:
        finish = Finish(ctx.job, ctx.slot, ctx.token, state, nonce=nonce)
        return _answer(self._store.finish([finish]))

    def do(self, ctx: RunContext) -> bool:
        """Begin and end the work at once."""
        return self.begin(ctx) and self.finish(ctx)


def _answer(call: Coroutine[Any, Any, Reply[bool]]) -> bool:
    # a store in memory waits for nothing
    try:
        call.send(None)
    except StopIteration as done:
        [answer] = done.value.answers
        return bool(answer)
    raise AssertionError("the store waits")
