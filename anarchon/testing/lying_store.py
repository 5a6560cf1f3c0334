"""A store that lies as real ones do, on a virtual clock.

The store proper is ``MemoryBackend``, whose steps are atomic. What lies is everything around
it: a request may be refused, get lost, or arrive long after its caller gave up; it may be
carried out twice; a reply may get lost after the store did what was asked, or come late, and
so overtake another. The server may be silent for a while, or be down for a while; it may
forget what it acknowledged last, as a replica that was promoted has
never heard of it; its clock may be set.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from random import Random
from typing import Any, TypeVar, cast

from anarchon.backends.memory import MemoryBackend, Saved
from anarchon.clock import Clock
from anarchon.errors import OutcomeUnknown, StoreError, StoreUnavailable
from anarchon.testing.passing import Call, PassingBackend
from anarchon.testing.port_watch import PortWatch

T = TypeVar("T")


class Fate(Enum):
    """What becomes of one call."""

    ANSWERED = "answered"
    REFUSED = "refused"
    """Nothing happened, and the caller hears it."""
    NEVER_ARRIVED = "never arrived"
    NO_REPLY = "no reply"
    """It was done, and the caller hears nothing."""
    CONNECTION_LOST = "connection lost"
    """It was done, and the caller hears that it may have been."""
    LATE = "late"
    """The request takes so long that its caller may have given up."""
    SLOW_REPLY = "slow reply"
    TWICE = "twice"
    """A driver sent it again by itself, and it was done again."""


_BAD = tuple(fate for fate in Fate if fate is not Fate.ANSWERED)
#: The longest that a late request or a slow reply takes, in seconds.
LATEST = 8.0


@dataclass(frozen=True, slots=True)
class _Request:
    arrive: Callable[[], None]
    drop: Callable[[], None]


class LyingServer:
    """The store that all instances share: pause it, restart it, let it forget, set its clock.

    ``make`` makes the store proper; give another to see whether a flawed one is found out.
    """

    def __init__(
        self,
        clock: Clock,
        make: Callable[[Callable[[], datetime]], MemoryBackend] = MemoryBackend,
    ) -> None:
        self._clock = clock
        self.off_by = timedelta(0)
        """By how much the store's clock is wrong."""
        self.nudged_by = timedelta(0)
        """By how much it was corrected, all in all, in steps that no lease feels."""
        self.backend = make(self.now)
        self.watch = PortWatch()
        self.is_down = False
        self._waiting: list[_Request] | None = None
        self._remembered: tuple[Saved, PortWatch] | None = None

    def now(self) -> datetime:
        """Return the time by the store's clock."""
        return self._clock.wall() + self.nudged_by + self.off_by

    def pause(self) -> None:
        """Answer nobody; what arrives meanwhile is done on ``resume``."""
        self._waiting = self._waiting if self._waiting is not None else []

    def resume(self) -> None:
        """Do what has arrived meanwhile, and go on."""
        waiting, self._waiting = self._waiting or [], None
        for request in waiting:
            request.arrive()

    def go_down(self) -> None:
        """End: connections are refused, and what waits to be done is dropped."""
        self.is_down = True
        waiting, self._waiting = self._waiting or [], None
        for request in waiting:
            request.drop()

    def come_up(self) -> None:
        """Serve again, with everything that was kept."""
        self.is_down = False

    def remember(self) -> None:
        """Note what a replica has: ``forget`` goes back to it."""
        self._remembered = (self.backend.save(), self.watch.copy())

    def forget(self) -> None:
        """Lose every write since ``remember``, acknowledged or not."""
        if self._remembered is not None:
            saved, self.watch = self._remembered
            self.backend.restore(saved)
            self._remembered = None

    def take(self, request: _Request) -> None:
        """Do what was asked, when there is somebody to do it."""
        if self.is_down:
            request.drop()
        elif self._waiting is not None:
            self._waiting.append(request)
        else:
            request.arrive()


class LyingLink(PassingBackend):
    """One instance's way to the server; ``badness`` is the share of calls with a bad fate.

    ``cut`` loses everything, without a word; ``refuses`` loses everything, and says so.
    ``on_call`` hears the number of each call before it is sent and after it was done, and may
    kill the instance there.
    """

    def __init__(
        self,
        server: LyingServer,
        clock: Clock,
        random: Random,
        on_call: Callable[[int, bool], None] = lambda number, done: None,
    ) -> None:
        super().__init__(server.backend)
        self.badness = 0.0
        self.slowness = 0.0
        self.cut = False
        self.refuses = False
        self.calls = 0
        self._server = server
        self._clock = clock
        self._random = random
        self._on_call = on_call

    async def pass_on(self, verb: str, call: Call[T]) -> T:
        self.calls += 1
        number = self.calls
        self._on_call(number, False)
        loop = asyncio.get_running_loop()
        reply: asyncio.Future[T] = loop.create_future()
        fate = self._fate()
        if self.refuses or fate is Fate.REFUSED:
            raise StoreUnavailable(self.label, "refused, as the simulation wants it")
        if self.cut or fate is Fate.NEVER_ARRIVED:
            return await reply

        def arrive() -> None:
            result = _done_now(call)
            self._server.watch.see(verb, call.questions, result)
            if fate is Fate.TWICE:
                result = _done_now(call)
                self._server.watch.see(verb, call.questions, result)
            self._on_call(number, True)
            if fate is Fate.NO_REPLY or self.cut:
                return
            if fate is Fate.CONNECTION_LOST:
                self._tell(reply, OutcomeUnknown(self.label, "connection lost, as simulated"))
            else:
                self._tell(reply, result, slow=fate is Fate.SLOW_REPLY)

        def drop() -> None:
            self._tell(reply, StoreUnavailable(self.label, "down, as the simulation wants it"))

        request = _Request(arrive, drop)
        if fate is Fate.LATE:
            # a request on its way goes on whatever becomes of its sender
            loop.call_later(self._random.random() * LATEST, self._server.take, request)
        elif self.slowness:
            loop.call_later(self._random.random() * self.slowness, self._server.take, request)
        else:
            self._server.take(request)
        return await reply

    def _fate(self) -> Fate:
        if self.badness and self._random.random() < self.badness:
            return self._random.choice(_BAD)
        return Fate.ANSWERED

    def _tell(self, reply: asyncio.Future[T], result: T | StoreError, slow: bool = False) -> None:
        def tell() -> None:
            if reply.done():
                return
            if isinstance(result, StoreError):
                reply.set_exception(result)
            else:
                reply.set_result(result)

        length = LATEST if slow else self.slowness or 0.001
        # by the instance's own clock: who is frozen hears it when thawed
        self._clock.call_later(self._random.random() * length, tell)


def _done_now(call: Call[T]) -> T:
    """Make a call that waits for nothing, in this very moment."""
    try:
        cast(Coroutine[Any, Any, T], call.make()).send(None)
    except StopIteration as done:
        return cast(T, done.value)
    raise AssertionError("a store in memory never waits")
