"""Messages that wait for the one thread that sends go together, where their way can do that."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

import pytest

from anarchon.clock import SystemClock
from anarchon.run import RunContext, Signal
from anarchon.scheduler.outbox import NOT_BEGUN, Letter, Outbox, Returned
from anarchon.testing import ManualClock
from tests.engine.bodies import slot
from tests.engine.brokers import AtOnce


class Road:
    """A way that remembers what went together, and fails at the end when a test says so."""

    def __init__(self, *, is_held_back: bool = True) -> None:
        self.is_held_back = is_held_back
        self.pieces: list[list[str]] = []
        self.gone: list[list[str]] = []
        self.fails = 0

    def together(self) -> AbstractContextManager[Road]:
        return self._piece()

    @contextmanager
    def _piece(self) -> Iterator[Road]:
        self.pieces.append([])
        yield self
        if self.fails:
            self.fails -= 1
            raise ConnectionError("the broker went away")
        self.gone.append(self.pieces[-1])


class Sends:
    task = "send"
    sends_to = "nowhere"

    def __init__(self, way: Road | None = None, breaks: bool = False) -> None:
        if way is not None:
            self.way = way
        self._breaks = breaks

    def publish(self, ctx: RunContext) -> str:
        if self._breaks:
            raise ValueError("cannot be encoded")
        way = getattr(self, "way", None)
        if way is not None:
            way.pieces[-1].append(ctx.job)
        return f"id of {ctx.job}"


def letter(job: str, action: Any, may_go: Any = lambda: True) -> Letter:
    ctx = RunContext(job, slot(0), 1, 1, "t", "here", "default", None, Signal())
    return Letter(action, ctx, may_go)


async def outcomes(*letters: Letter) -> list[object]:
    outbox = Outbox(ManualClock())
    outbox.thread = AtOnce()
    return await asyncio.gather(*map(outbox.send, letters))


async def test_what_waits_goes_together_in_the_order_it_came() -> None:
    road = Road()
    action = Sends(road)

    told = await outcomes(*(letter(name, action) for name in "abc"))

    assert road.pieces == [["a", "b", "c"]]
    assert told == [Returned(f"id of {name}") for name in "abc"]


async def test_what_goes_another_way_goes_apart() -> None:
    first, second = Road(), Road()
    to_first, to_second, nowhere = Sends(first), Sends(second), Sends()

    told = await outcomes(
        letter("a", to_first),
        letter("b", to_first),
        letter("c", to_second),
        letter("d", nowhere),
        letter("e", to_first),
    )

    assert first.pieces == [["a", "b"], ["e"]]
    assert second.pieces == [["c"]]
    assert all(isinstance(outcome, Returned) for outcome in told)


async def test_all_that_went_together_has_failed_if_its_end_did() -> None:
    road = Road()
    road.fails = 1
    action = Sends(road)

    told = await outcomes(letter("a", action), letter("b", action, lambda: False))

    assert isinstance(told[0], ConnectionError)
    assert told[1] is NOT_BEGUN


async def test_what_is_to_go_alone_goes_with_nobody() -> None:
    road = Road()
    action = Sends(road)

    await outcomes(
        letter("a", action),
        letter("b", action),
        replace(letter("c", action), alone=True),
        replace(letter("d", action), alone=True),
        letter("e", action),
    )

    assert road.pieces == [["a", "b"], ["c"], ["d"], ["e"]]


async def test_a_message_that_cannot_be_made_keeps_no_other_from_going() -> None:
    road = Road()

    told = await outcomes(
        letter("a", Sends(road)), letter("b", Sends(road, breaks=True)), letter("c", Sends(road))
    )

    assert road.pieces == [["a", "c"]]
    assert isinstance(told[1], ValueError)
    assert told[2] == Returned("id of c")


async def test_what_may_not_go_any_more_at_the_end_stays_behind_and_the_others_go() -> None:
    """A process that was frozen while it made them: leases may have lapsed."""
    road, asked = Road(), []
    action = Sends(road)

    def may_go_once() -> bool:
        asked.append(1)
        return len(asked) < 2

    told = await outcomes(letter("a", action, may_go_once), letter("b", action))

    assert told == [NOT_BEGUN, Returned("id of b")]
    assert road.pieces == [["a", "b"], ["b"]]
    assert road.gone == [["b"]]


async def test_what_is_out_already_is_not_sent_again_for_one_that_may_not_go_any_more() -> None:
    """A broker that has each message at once, as RabbitMQ has."""
    road, asked = Road(is_held_back=False), []
    action = Sends(road)

    def may_go_once() -> bool:
        asked.append(1)
        return len(asked) < 2

    told = await outcomes(letter("a", action, may_go_once), letter("b", action))

    assert told == [Returned("id of a"), Returned("id of b")]
    assert road.pieces == [["a", "b"]]


async def test_a_way_that_cannot_be_entered_fails_all_that_waited_for_it() -> None:
    class Closed(Road):
        def together(self) -> AbstractContextManager[Road]:
            raise ConnectionError("refused")

    action = Sends(Closed())

    told = await outcomes(letter("a", action), letter("b", action))

    assert [type(outcome) for outcome in told] == [ConnectionError, ConnectionError]


async def test_a_slow_way_tells_of_what_it_has_sent_before_it_goes_on() -> None:
    clock = ManualClock()
    outbox = Outbox(clock)
    outbox.thread = AtOnce()

    class Slow(Sends):
        def publish(self, ctx: RunContext) -> str:
            clock._gone += 40_000
            return super().publish(ctx)

    road = Road()
    action = Slow(road)

    await asyncio.gather(*(outbox.send(letter(name, action)) for name in "abcde"))
    pieces = [len(piece) for piece in road.pieces]

    assert sum(pieces) == 5
    assert max(pieces) == 2


async def test_what_no_thread_could_be_started_for_is_sent_once_when_it_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also what waited behind it, for another way."""
    first, second = Road(), Road()
    outbox = Outbox(SystemClock())
    letters = [letter("a", Sends(first)), letter("b", Sends(second))]

    def fail(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as without:
        without.setattr(threading.Thread, "start", fail)
        told = await asyncio.gather(*map(outbox.send, letters))
    assert [str(error) for error in told] == ["can't start new thread"] * 2

    told = await asyncio.gather(*map(outbox.send, letters))
    outbox.close()

    assert told == [Returned("id of a"), Returned("id of b")]
    assert (first.pieces, second.pieces) == ([["a"]], [["b"]])
