"""The way to the store from threads and greenlets: one connection, while there are questions."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar

from anarchon.asking import Asking
from anarchon.clock import Bell, Clock
from anarchon.errors import AnarchonError, OutcomeUnknown, StoreUnavailable
from anarchon.store import LeaseStore
from anarchon.threads import Flag
from anarchon.worker.on_demand import IDLE, OnDemand

T = TypeVar("T")


class Errand(Generic[T]):
    """One question on its way to the store; its answer may be waited for anywhere."""

    def __init__(self, ask: Callable[[Asking], Awaitable[T]]) -> None:
        self._ask = ask
        self._done = Flag()
        self._answer: list[T] = []
        self._error: AnarchonError | None = None
        self._taken_back = False
        self._task: asyncio.Task[None] | None = None

    @property
    def is_answered(self) -> bool:
        """Tell whether nothing more is done about it."""
        return self._done.is_set()

    def wait(self, seconds: float) -> T:
        """Return the answer; raises ``StoreError`` if there is none, or not within so long.

        The question is not taken back by that: the answer may still come.
        """
        if not self._done.wait(seconds):
            raise OutcomeUnknown("store", f"no answer within {seconds:.1f} s")
        if self._error is not None:
            raise self._error
        return self._answer[0]

    def take_back(self) -> None:
        """Ask no more; a call that is under way may be heard all the same."""
        self._taken_back = True
        task = self._task
        if task is not None:
            # its loop may have been closed a moment ago
            with suppress(RuntimeError):
                task.get_loop().call_soon_threadsafe(task.cancel)

    async def answered(self) -> T:
        """Return the answer to another errand of the same thread."""
        if not self._done.is_set():
            assert self._task is not None, "sent before the errand that waits for it"
            await asyncio.wait({self._task})
        return self.wait(0)

    async def carry_out(self, asking: Asking) -> None:
        """Ask until there is an answer."""
        self._task = asyncio.current_task()
        try:
            if self._taken_back:
                raise StoreUnavailable(asking.label, "not asked: taken back")
            self._answer.append(await self._ask(asking))
        except AnarchonError as error:
            self._error = error
        except BaseException as error:
            self._error = StoreUnavailable(asking.label, f"given up: {error!r}")
            raise
        finally:
            self._done.set()

    def fail(self, error: AnarchonError) -> None:
        """Let whoever waits hear an error."""
        self._error = error
        self._done.set()


class Errands(OnDemand):
    """Carries errands out; may be given them by any thread or greenlet."""

    def __init__(self, connect: Callable[[], LeaseStore], clock: Clock) -> None:
        self._connect = connect
        self._clock = clock
        super().__init__("anarchon-worker")

    def forget(self) -> None:
        super().forget()
        self._waiting: deque[Errand[Any]] = deque()

    def send(self, errand: Errand[T]) -> Errand[T]:
        """See to an errand; returns at once."""
        self._waiting.append(errand)
        self.call()
        return errand

    async def work(self, bell: Bell) -> None:
        under_way = set[asyncio.Task[None]]()
        asking = Asking(self._connect(), self._clock)

        def ended(task: asyncio.Task[None]) -> None:
            under_way.discard(task)
            bell.set()

        try:
            while True:
                bell.clear()
                calls = self._calls
                while self._waiting:
                    task = asyncio.create_task(self._waiting.popleft().carry_out(asking))
                    under_way.add(task)
                    task.add_done_callback(ended)
                if self._closing and not under_way:
                    return
                rang = await self._clock.wait(bell, IDLE)
                if not rang and not under_way and self.may_rest(calls):
                    return
        finally:
            await asking.close()

    def ended(self, error: BaseException | None) -> None:
        while self._waiting:
            problem = "closed" if error is None else f"not asked: {error!r}"
            self._waiting.popleft().fail(StoreUnavailable("store", problem))
