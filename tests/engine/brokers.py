"""A broker for the tests: what was sent, by whom and when; down when the test says so."""

from __future__ import annotations

import functools
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import Any

from anarchon.run import RunContext
from anarchon.testing import Fleet, ManualClock


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

    def publish(self, ctx: RunContext) -> str:
        self.tries += 1
        self.before(ctx)
        if self.down or ctx.instance in self.cut_off:
            raise ConnectionError("the broker is away")
        self.sent.append((self.clock.monotonic(), ctx))
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


def without_threads(fleet: Fleet, pool: Executor | None = None) -> None:
    """Make the members of a running fleet publish on the loop; at once, without a pool given."""
    for member in fleet.members:
        life = member.scheduler._life
        assert life is not None
        life.executor._publisher = pool or AtOnce()  # type: ignore[assignment]
