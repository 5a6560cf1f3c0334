"""The runs that wait to be handed to a broker, and the one thread that does it.

It is one thread, for a broker's producer is not to be shared, and one is as fast as four. While
it sends, others gather: it takes what waits by then, and what goes the same way goes
together, as far as the broker's client can do that. So a burst costs one turn of the loop, and
one round trip, for many messages. A piece is no longer than `_LONGEST`, and its messages
count as sent only when all of it is.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor as Threads
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass

from anarchon.action import Handler, Publisher, way_of
from anarchon.clock import Clock
from anarchon.run import RunContext

#: Seconds and messages: far less than a lease is trusted for.
_LONGEST, _MOST = 0.05, 200


class _HeldUp(Exception):
    """This process did not run while a piece was made: some of it may not go any more."""


@dataclass(frozen=True, slots=True)
class Returned:
    """What a publisher returned: the message was sent, and to try again would send it twice."""

    value: object


@dataclass(frozen=True, slots=True)
class Letter:
    """A run to be published; ``may_go`` tells right before whether it may still be sent.

    What goes ``alone`` costs no other anything, should the broker refuse it.
    """

    action: Handler | Publisher
    ctx: RunContext
    may_go: Callable[[], bool]
    alone: bool = False


#: What became of one: `Returned`, the error that kept it from being sent, or `NOT_BEGUN`.
NOT_BEGUN = object()
_AGAIN = object()


class Outbox:
    """Sends one piece after the other."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.thread: Threads = ThreadPoolExecutor(1, "anarchon-publish")
        self._waiting: deque[tuple[Letter, asyncio.Future[object]]] = deque()
        self._is_sending = False

    async def send(self, letter: Letter) -> object:
        """Send it with those that wait; return what became of it."""
        told: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._waiting.append((letter, told))
        if not self._is_sending:
            self._is_sending = True
            # whoever comes in this very moment goes along
            asyncio.get_running_loop().call_soon(self._send_some)
        return await told

    def _send_some(self) -> None:
        piece = self._take()
        if not piece:
            self._is_sending = False
            return
        letters = [letter for letter, _ in piece]
        try:
            sending = asyncio.get_running_loop().run_in_executor(
                self.thread, _send, letters, self._clock.monotonic
            )
        except RuntimeError as error:
            # No thread could be started. The call stays in line for one all the same, and is to
            # find nothing: whoever hears of this sends again.
            letters.clear()
            everybody = [*piece, *self._waiting]
            self._waiting.clear()
            self._tell(everybody, [error] * len(everybody))
            self._is_sending = False
            return
        sending.add_done_callback(lambda sent: self._sent(piece, sent))

    def _take(self) -> list[tuple[Letter, asyncio.Future[object]]]:
        """Take those in front that go the same way."""
        piece: list[tuple[Letter, asyncio.Future[object]]] = []
        while self._waiting and len(piece) < _MOST:
            letter, told = self._waiting[0]
            if piece and not _go_together(piece[0][0], letter):
                break
            self._waiting.popleft()
            if not told.done():
                piece.append((letter, told))
        return piece

    def _sent(
        self,
        piece: list[tuple[Letter, asyncio.Future[object]]],
        sent: asyncio.Future[list[object]],
    ) -> None:
        if sent.cancelled():
            outcomes: list[object] = [NOT_BEGUN] * len(piece)
        else:
            outcomes = sent.result()
        again = [one for one, said in zip(piece, outcomes, strict=False) if said is _AGAIN]
        self._waiting.extendleft(reversed([*again, *piece[len(outcomes) :]]))
        self._tell(piece, outcomes)
        self._send_some()

    def _tell(
        self, piece: list[tuple[Letter, asyncio.Future[object]]], outcomes: Sequence[object]
    ) -> None:
        for (_, told), outcome in zip(piece, outcomes, strict=False):
            if outcome is not _AGAIN and not told.done():
                told.set_result(outcome)

    def close(self) -> None:
        """Let the thread go when it has nothing more to do."""
        self.thread.shutdown(wait=False)


def _go_together(one: Letter, other: Letter) -> bool:
    if one.alone or other.alone:
        return False
    return way_of(one.action) is way_of(other.action)


def _send(letters: Sequence[Letter], monotonic: Callable[[], float]) -> list[object]:
    """Send letters that go one way, as many as there is time for; return what became of them."""
    outcomes: list[object] = []
    if not letters:
        return outcomes
    way = way_of(letters[0].action)
    until = monotonic() + _LONGEST
    try:
        with nullcontext() if way is None else way.together() as piece:
            for letter in letters:
                outcomes.append(_send_one(letter))
                if monotonic() > until:
                    break
            if piece is not None and piece.is_held_back and not _may_still_go(letters, outcomes):
                raise _HeldUp
    except _HeldUp:
        # nothing was sent: those that still may go again, without the others
        return [_AGAIN if isinstance(outcome, Returned) else outcome for outcome in outcomes]
    except BaseException as error:
        # what was handed in may have been sent, or not
        held = [error if isinstance(outcome, Returned) else outcome for outcome in outcomes]
        return held or [error] * len(letters)
    return outcomes


def _may_still_go(letters: Sequence[Letter], outcomes: Sequence[object]) -> bool:
    made = zip(letters, outcomes, strict=False)
    return all(letter.may_go() for letter, outcome in made if isinstance(outcome, Returned))


def _send_one(letter: Letter) -> object:
    if not letter.may_go():
        return NOT_BEGUN
    try:
        publisher: Publisher = letter.action  # type: ignore[assignment]  # or it would not be here
        return Returned(publisher.publish(letter.ctx))
    except BaseException as error:
        return error
