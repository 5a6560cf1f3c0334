"""Gathers questions of one kind, sends them in batches, and asks again what was not answered.

Questions that are asked in one moment travel together. A call goes at once if none went in
the last 20 ms, else with all that gather until then.

A call that fails is the business of this module, not of the asker. Nothing happened: the
questions are sent again after a growing pause. It may have happened: they are sent again
the same way, under the same tokens, which every store answers as it did the first time.
No answer came before the deadline, which is that of the most urgent question: the more
patient ones travel apart from then on, so that one short lease on a slow store costs no
other job its answer. The store answers, but not for all of them: they are sent again in halves,
and those that it does not answer for wait by themselves, so that nobody else does. The store
refused the call as a whole: it is halved, until the question that poisons it stands alone and
fails its asker only. Each question says when it is not worth asking any more; its asker then
gets the last error that leaves open whether it happened, or the last of all if none does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from anarchon.clock import Bell, Clock, growing_pauses
from anarchon.errors import OutcomeUnknown, SchemaMismatch, StoreError, StoreUnavailable
from anarchon.store import Reply

GATHER = 0.02
LARGEST_BATCH = 500
_PAUSES = 0.1, 5.0
#: How long those wait that the store does not answer for while it answers others.
_PAUSE_APART = 0.5


class TimedOut(OutcomeUnknown):
    """The deadline was ours: a more patient question might have been answered."""


class _Question(Protocol):
    @property
    def job(self) -> str: ...


Q = TypeVar("Q", bound=_Question)
A = TypeVar("A")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answered(Generic[A]):
    """An answer, and our monotonic time right before the call that brought it was sent."""

    answer: A
    asked_at: float


@dataclass(slots=True)
class _Asked(Generic[Q, A]):
    question: Q
    deadline: float
    give_up: Callable[[], bool]
    answer: asyncio.Future[Answered[A]]
    #: Why it may have happened already, whatever became of it when it was sent again.
    unknown: OutcomeUnknown | None = None

    def note(self, error: StoreError) -> None:
        if isinstance(error, OutcomeUnknown):
            self.unknown = error

    def fail(self, error: StoreError) -> None:
        if not self.answer.done():
            self.answer.set_exception(self.unknown or error)


class Calls(Protocol):
    """Who makes the calls, one at a time."""

    clock: Clock
    is_closed: bool

    @property
    def label(self) -> str: ...

    def closed(self) -> StoreUnavailable: ...

    async def call(
        self, ask: Callable[[], Awaitable[Reply[T]]], deadline: float
    ) -> tuple[Reply[T], float]: ...


class Gatherer(Generic[Q, A]):
    """The questions of one kind that wait for a call, and the task that sends them."""

    def __init__(
        self,
        verb: str,
        calls: Calls,
        send: Callable[[Sequence[Q]], Awaitable[Reply[A]]],
        *,
        one_of_a_job: bool = False,
    ) -> None:
        self._verb = verb
        self._calls = calls
        self._clock = calls.clock
        self._send = send
        self._one_of_a_job = one_of_a_job
        self._waiting: list[_Asked[Q, A]] = []
        self._apart: list[_Asked[Q, A]] = []
        self._sent: list[_Asked[Q, A]] = []
        self._some = asyncio.Event()
        self._again = Bell()
        self._sender: asyncio.Task[None] | None = None
        self._last_sent = float("-inf")
        #: The deadline that was too short last time; whatever is as urgent travels apart.
        self._too_short = 0.0
        self._urgent_were_first = False

    async def ask(self, question: Q, deadline: float, give_up: Callable[[], bool]) -> Answered[A]:
        if self._calls.is_closed:
            raise self._calls.closed()
        answer: asyncio.Future[Answered[A]] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Asked(question, deadline, give_up, answer))
        self._some.set()
        if self._sender is None:
            self._sender = asyncio.create_task(self._run(), name=f"anarchon-{self._verb}")
        return await answer

    def hurry(self) -> None:
        """Ask again now what waits to be asked again: the store has answered somebody."""
        self._again.set()

    async def close(self) -> None:
        sender, self._sender = self._sender, None
        if sender is not None:
            sender.cancel()
            await asyncio.gather(sender, return_exceptions=True)
        unanswered = [*self._sent, *self._waiting, *self._apart]
        self._sent, self._waiting, self._apart = [], [], []
        for asked in unanswered:
            asked.fail(self._calls.closed())

    async def _run(self) -> None:
        pauses = growing_pauses(*_PAUSES)
        while True:
            await self._some.wait()
            await self._clock.sleep(0)  # whoever asks in this very moment travels along
            since = self._clock.monotonic() - self._last_sent
            if since < GATHER and len(self._waiting) < LARGEST_BATCH:
                await self._clock.sleep(GATHER - since)
            batch = self._take()
            if not batch:
                continue
            self._last_sent = self._clock.monotonic()
            self._sent = batch
            error = await self._ask_for_most(batch)
            self._sent = []
            if error is None:
                pauses = growing_pauses(*_PAUSES)
                continue
            others_wait = bool(self._waiting)
            self._put_back(batch, error)
            if error.partly:
                continue
            if isinstance(error, TimedOut) and self._parted(batch, others_wait):
                continue
            self._again.clear()
            await self._clock.wait(self._again, next(pauses))

    def _take(self) -> list[_Asked[Q, A]]:
        """Take what goes into the next call, in the order of its jobs."""
        batch: list[_Asked[Q, A]] = []
        left: list[_Asked[Q, A]] = []
        jobs: set[str] = set()
        waiting = [asked for asked in self._waiting if not asked.answer.done()]
        turn = self._whose_turn(waiting)
        for asked in waiting:
            job = asked.question.job
            apart = turn is not None and self._is_urgent(asked) is not turn
            if apart or len(batch) == LARGEST_BATCH or (self._one_of_a_job and job in jobs):
                left.append(asked)
                continue
            jobs.add(job)
            batch.append(asked)
        self._waiting = left
        if not left:
            self._some.clear()
        batch.sort(key=lambda asked: asked.question.job)
        return batch

    def _is_urgent(self, asked: _Asked[Q, A]) -> bool:
        return asked.deadline <= self._too_short

    def _whose_turn(self, waiting: list[_Asked[Q, A]]) -> bool | None:
        """Take turns where some are too urgent for the others: ``True`` is the urgent's."""
        if {self._is_urgent(asked) for asked in waiting} != {True, False}:
            return None
        self._urgent_were_first = not self._urgent_were_first
        return not self._urgent_were_first

    def _parted(self, batch: list[_Asked[Q, A]], others_wait: bool) -> bool:
        """Learn from a deadline that passed; tell whether others need not wait for it again."""
        self._too_short = min(asked.deadline for asked in batch)
        return others_wait or not all(self._is_urgent(asked) for asked in batch)

    async def _ask_for_most(self, batch: list[_Asked[Q, A]]) -> StoreError | None:
        """Do as ``_ask_all``, and again in halves what was answered in part."""
        error = await self._ask_all(batch)
        if len(batch) == 1 or not (isinstance(error, OutcomeUnknown) and error.partly):
            return error
        for asked in batch:
            asked.note(error)
        await self._narrow_down(batch)
        return None

    async def _ask_all(self, batch: list[_Asked[Q, A]]) -> StoreError | None:
        """Send a batch and hand out its answers; return why all of it must be sent again."""
        questions = [asked.question for asked in batch]
        try:
            reply, asked_at = await self._calls.call(
                lambda: self._send(questions), min(asked.deadline for asked in batch)
            )
            if len(reply.answers) != len(batch):
                problem = f"gave {len(reply.answers)} answers to {len(batch)} questions"
                raise StoreError(self._calls.label, problem)
        except (StoreUnavailable, OutcomeUnknown) as error:
            return error
        except StoreError as error:
            if len(batch) == 1 or isinstance(error, SchemaMismatch):
                for asked in batch:
                    asked.fail(error)
            else:
                await self._narrow_down(batch)
            return None
        if min(asked.deadline for asked in batch) <= self._too_short:
            self._too_short = 0.0
        for asked, answer in zip(batch, reply.answers, strict=True):
            if not asked.answer.done():
                asked.answer.set_result(Answered(answer, asked_at))
        return None

    async def _narrow_down(self, batch: list[_Asked[Q, A]]) -> None:
        middle = len(batch) // 2
        for half in (batch[:middle], batch[middle:]):
            again = await self._ask_for_most(half)
            if again is not None:
                self._put_back(half, again)

    def _put_back(self, batch: list[_Asked[Q, A]], error: StoreError) -> None:
        if error.partly and not self._apart:
            self._clock.call_later(_PAUSE_APART, self._rejoin)
        for asked in batch:
            if asked.answer.done():
                continue
            asked.note(error)
            if asked.give_up():
                asked.fail(error)
            elif error.partly:
                self._apart.append(asked)
            else:
                self._waiting.append(asked)
        if self._waiting:
            self._some.set()

    def _rejoin(self) -> None:
        self._waiting += self._apart
        self._apart = []
        if self._waiting:
            self._some.set()
