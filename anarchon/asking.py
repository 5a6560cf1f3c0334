"""The one caller of a store: gathers questions, gives each call a deadline, asks again.

Whoever needs the store asks one question and awaits its answer; questions of one kind that
are asked in one moment travel together. A kind's call goes at once if none went in the
last 20 ms, else with all that gather until then.

A call that fails is the business of this module, not of the asker. Nothing happened: the
questions are sent again after a growing pause. It may have happened: they are sent again
the same way, under the same tokens, which every store answers as it did the first time.
No answer came before the deadline, which is that of the most urgent question: the more
patient ones travel apart from then on, so that one short lease on a slow store costs no
other job its answer. The store refused the call as a whole: it is halved, until the question
that poisons it stands alone and fails its asker only. Each question says when it is not
worth asking any more; its asker then gets the last error.

Every answer carries the store's time, which ``anarchon.store_time`` learns from.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from anarchon.clock import Clock, growing_pauses
from anarchon.errors import OutcomeUnknown, SchemaMismatch, StoreError, StoreUnavailable
from anarchon.run import Attempt
from anarchon.store import (
    Claim,
    ClaimAnswer,
    Finish,
    KnownJob,
    LeaseStore,
    Prune,
    Registration,
    Release,
    Reply,
)
from anarchon.store_time import StoreTime

log = logging.getLogger("anarchon.store")

GATHER = 0.02
LARGEST_BATCH = 500
#: Calls nobody's lease waits for, and opening, which may have to migrate.
PATIENCE = 10.0
_PAUSES = 0.1, 5.0


class _TimedOut(OutcomeUnknown):
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


class Asking:
    """Asks one store, one call at a time, for everybody on this loop."""

    def __init__(
        self,
        store: LeaseStore,
        clock: Clock,
        *,
        back_after_outage: Callable[[float], None] | None = None,
    ) -> None:
        self.time = StoreTime(clock)
        self._store = store
        self._clock = clock
        self._is_open = False
        self._is_closed = False
        self._turn = asyncio.Lock()
        self._back_after_outage = back_after_outage
        self._away_since: float | None = None
        self._claims = _Gatherer("claim", self, store.claim, one_of_a_job=True)
        self._finishes = _Gatherer("finish", self, store.finish)
        self._releases = _Gatherer("release", self, store.release)

    def __repr__(self) -> str:
        state = "away" if self._away_since is not None else "open" if self._is_open else "new"
        return f"<Asking {self._store.label}: {state}>"

    @property
    def label(self) -> str:
        """The store as it may be shown."""
        return self._store.label

    @property
    def is_answering(self) -> bool:
        """Tell whether the last call was answered."""
        return self._is_open and self._away_since is None

    async def claim(
        self, claim: Claim, *, deadline: float, give_up: Callable[[], bool]
    ) -> Answered[ClaimAnswer]:
        """Ask for a slot until there is an answer or it is not worth asking.

        Raises the last ``StoreError`` when ``give_up`` says so, or the store refuses.
        """
        return await self._claims.ask(claim, deadline, give_up)

    async def finish(
        self, finish: Finish, *, deadline: float, give_up: Callable[[], bool]
    ) -> Answered[bool]:
        """Record the end of a run; as ``claim``."""
        return await self._finishes.ask(finish, deadline, give_up)

    async def release(
        self, release: Release, *, deadline: float, give_up: Callable[[], bool]
    ) -> Answered[bool]:
        """Give a lease back; as ``claim``."""
        return await self._releases.ask(release, deadline, give_up)

    async def active(self, jobs: Sequence[Registration]) -> Reply[KnownJob]:
        """Register jobs, in calls of a bearable size; raises what the store raises.

        The time of the reply is that of the first call.
        """
        first: Reply[KnownJob] | None = None
        known: list[KnownJob] = []
        for start in range(0, max(len(jobs), 1), LARGEST_BATCH):
            some = jobs[start : start + LARGEST_BATCH]
            reply = await self._reply(lambda some=some: self._store.active(some))  # type: ignore[misc]
            first = first or reply
            known += reply.answers
        assert first is not None, "the loop runs at least once"
        return Reply(first.time, tuple(known))

    async def history(self, jobs: Sequence[str], limit: int) -> Reply[Attempt]:
        """Return the newest attempts of these jobs; raises what the store raises."""
        return await self._reply(lambda: self._store.history(jobs, limit))

    async def prune(self, prunes: Sequence[Prune]) -> Reply[int]:
        """Delete what retention allows; raises what the store raises."""
        return await self._reply(lambda: self._store.prune(prunes))

    async def _reply(self, ask: Callable[[], Awaitable[Reply[T]]]) -> Reply[T]:
        reply, _ = await self._call(ask, PATIENCE)
        return reply

    async def _call(
        self, ask: Callable[[], Awaitable[Reply[T]]], deadline: float
    ) -> tuple[Reply[T], float]:
        async with self._turn:
            if self._is_closed:
                raise self.closed()
            try:
                if not self._is_open:
                    await self._open()
                before = self._clock.monotonic()
                try:
                    async with self._clock.timeout(deadline):
                        reply = await ask()
                except TimeoutError:
                    raise _TimedOut(self.label, f"no answer within {deadline:.1f} s") from None
            except (StoreUnavailable, OutcomeUnknown) as error:
                self._note_failure(error)
                raise
            except StoreError:
                raise
            except Exception as error:
                # an adapter's mistake; whoever asks counts on a store error, come what may
                log.exception("store failed: %s", self.label)
                raise StoreError(self.label, f"failed: {error!r}") from error
            after = self._clock.monotonic()
            self.time.observe(before, after, reply.time)
            self._note_success(after)
            return reply, before

    async def _open(self) -> None:
        try:
            async with self._clock.timeout(PATIENCE):
                await self._store.open()
        except TimeoutError:
            problem = f"could not be opened within {PATIENCE:.0f} s"
            raise StoreUnavailable(self.label, problem) from None
        self._is_open = True

    def _note_failure(self, error: StoreError) -> None:
        if self._away_since is None:
            self._away_since = self._clock.monotonic()
            log.warning("store away: %s; asked again until it answers", error)

    def _note_success(self, now: float) -> None:
        if self._away_since is None:
            return
        away, self._away_since = now - self._away_since, None
        log.warning("store back: %s answers again after %.1f s", self.label, away)
        if self._back_after_outage is not None:
            self._back_after_outage(away)

    def closed(self) -> StoreUnavailable:
        """Return what whoever asks after the end hears."""
        return StoreUnavailable(self.label, "closed")

    async def close(self) -> None:
        """Stop asking and let the connection go; whoever asks hears ``StoreUnavailable``."""
        self._is_closed = True
        for gatherer in (self._claims, self._finishes, self._releases):
            await gatherer.close()
        async with self._turn:
            await self._store.close()
            self._is_open = False


class _Gatherer(Generic[Q, A]):
    """The questions of one kind that wait for a call, and the task that sends them."""

    def __init__(
        self,
        verb: str,
        asking: Asking,
        send: Callable[[Sequence[Q]], Awaitable[Reply[A]]],
        *,
        one_of_a_job: bool = False,
    ) -> None:
        self._verb = verb
        self._asking = asking
        self._clock = asking._clock
        self._send = send
        self._one_of_a_job = one_of_a_job
        self._waiting: list[_Asked[Q, A]] = []
        self._sent: list[_Asked[Q, A]] = []
        self._some = asyncio.Event()
        self._sender: asyncio.Task[None] | None = None
        self._last_sent = float("-inf")
        #: The deadline that was too short last time; whatever is as urgent travels apart.
        self._too_short = 0.0
        self._urgent_were_first = False

    async def ask(self, question: Q, deadline: float, give_up: Callable[[], bool]) -> Answered[A]:
        if self._asking._is_closed:
            raise self._asking.closed()
        answer: asyncio.Future[Answered[A]] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Asked(question, deadline, give_up, answer))
        self._some.set()
        if self._sender is None:
            self._sender = asyncio.create_task(self._run(), name=f"anarchon-{self._verb}")
        return await answer

    async def close(self) -> None:
        sender, self._sender = self._sender, None
        if sender is not None:
            sender.cancel()
            await asyncio.gather(sender, return_exceptions=True)
        unanswered, self._waiting, self._sent = [*self._sent, *self._waiting], [], []
        for asked in unanswered:
            if not asked.answer.done():
                asked.answer.set_exception(self._asking.closed())

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
            error = await self._ask_all(batch)
            self._sent = []
            if error is None:
                pauses = growing_pauses(*_PAUSES)
                continue
            others_wait = bool(self._waiting)
            self._put_back(batch, error)
            if isinstance(error, _TimedOut) and self._parted(batch, others_wait):
                continue
            await self._clock.sleep(next(pauses))

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

    async def _ask_all(self, batch: list[_Asked[Q, A]]) -> StoreError | None:
        """Send a batch and hand out its answers; return why all of it must be sent again."""
        questions = [asked.question for asked in batch]
        try:
            reply, asked_at = await self._asking._call(
                lambda: self._send(questions), min(asked.deadline for asked in batch)
            )
            if len(reply.answers) != len(batch):
                problem = f"gave {len(reply.answers)} answers to {len(batch)} questions"
                raise StoreError(self._asking.label, problem)
        except (StoreUnavailable, OutcomeUnknown) as error:
            return error
        except StoreError as error:
            return await self._narrow_down(batch, error)
        if min(asked.deadline for asked in batch) <= self._too_short:
            self._too_short = 0.0
        for asked, answer in zip(batch, reply.answers, strict=True):
            if not asked.answer.done():
                asked.answer.set_result(Answered(answer, asked_at))
        return None

    async def _narrow_down(self, batch: list[_Asked[Q, A]], error: StoreError) -> StoreError | None:
        if len(batch) == 1 or isinstance(error, SchemaMismatch):
            for asked in batch:
                if not asked.answer.done():
                    asked.answer.set_exception(error)
            return None
        middle = len(batch) // 2
        for half in (batch[:middle], batch[middle:]):
            again = await self._ask_all(half)
            if again is not None:
                self._put_back(half, again)
        return None

    def _put_back(self, batch: list[_Asked[Q, A]], error: StoreError) -> None:
        for asked in batch:
            if asked.answer.done():
                continue
            if asked.give_up():
                asked.answer.set_exception(error)
            else:
                self._waiting.append(asked)
        if self._waiting:
            self._some.set()
