"""Whatever a handler does, its run ends, its lease is given back, and the next slot runs."""

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from anarchon.clock import Clock
from anarchon.errors import StoreUnavailable
from anarchon.events import EventKind
from anarchon.run import RunContext, RunState
from anarchon.scheduler import Scheduler
from anarchon.testing import Fleet
from tests.engine.bodies import Bodies, slot, slots, threads_reach


class Unspeakable:
    def __repr__(self) -> str:
        raise RuntimeError("not even this")


class UnspeakableError(Exception):
    def __repr__(self) -> str:
        raise RuntimeError("not even this")


class OutsideError(BaseException):
    """As pytest, gevent and anyio raise them: no ``Exception``, and no cancellation either."""


def deep() -> list[Any]:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    return nested


def every_10_s(bodies: Bodies, **handler: Any) -> Callable[[Scheduler, Clock], object]:
    def declare(scheduler: Scheduler, clock: Clock) -> object:
        return scheduler.every("sync", "10s", bodies.taking(clock, **handler), jitter=0)

    return declare


@pytest.mark.parametrize(
    ("value", "detail"),
    [
        (None, None),
        ("text", '"text"'),
        ({"rows": 3, "näme": "é"}, '{"rows": 3, "näme": "é"}'),
        ({1}, "{1}"),
        ("x" * 5000, '"' + "x" * 1996 + "..."),
    ],
)
async def test_what_a_handler_returns_is_in_the_history(
    bodies: Bodies, value: object, detail: str | None
) -> None:
    async with Fleet(1, every_10_s(bodies, then=value), clock=bodies.clock) as fleet:
        await fleet.clock.advance(11)

        [attempt] = await fleet.history("sync")
    assert (attempt.state, attempt.detail) == (RunState.SUCCESS, detail)


@pytest.mark.parametrize("value", [Unspeakable(), deep(), "\udcff", "a\x00b", Unspeakable])
async def test_a_result_that_cannot_be_written_down_is_a_success_all_the_same(
    bodies: Bodies, value: object
) -> None:
    async with Fleet(1, every_10_s(bodies, then=value), clock=bodies.clock) as fleet:
        await fleet.clock.advance(21)

        history = await fleet.history("sync")
    assert [attempt.state for attempt in history] == [RunState.SUCCESS] * 2
    for attempt in history:
        assert attempt.detail is not None
        assert "\x00" not in attempt.detail
        attempt.detail.encode()  # every store keeps UTF-8


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no"),
        SystemExit(3),
        KeyboardInterrupt(),
        OutsideError(),
        UnspeakableError(),
        BaseExceptionGroup("both", [OutsideError(), ValueError()]),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_whatever_a_handler_raises_fails_its_run_and_nothing_else(
    bodies: Bodies, error: BaseException
) -> None:
    async with Fleet(1, every_10_s(bodies, then=error), clock=bodies.clock) as fleet:
        await fleet.clock.advance(31)

        history = await fleet.history("sync")
        failures = fleet.told(EventKind.FAILURE)
    assert [attempt.state for attempt in history] == [RunState.FAILED] * 3
    assert bodies.slots() == slots(10, 30, 10)
    assert [event.error for event in failures] == [error] * 3


async def test_an_error_no_store_could_keep_is_kept_in_other_letters(
    bodies: Bodies, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the test runner's processes cannot tell each other of such a log line
    monkeypatch.setattr(logging.getLogger("anarchon.scheduler"), "disabled", True)
    error = ValueError("\udcff\x00")
    async with Fleet(1, every_10_s(bodies, then=error), clock=bodies.clock) as fleet:
        await fleet.clock.advance(11)

        [attempt] = await fleet.history("sync")
    assert attempt.state is RunState.FAILED
    assert attempt.detail is not None
    attempt.detail.encode()


async def test_a_handler_that_raises_cancellation_of_its_own_has_failed(bodies: Bodies) -> None:
    error = asyncio.CancelledError()
    async with Fleet(1, every_10_s(bodies, then=error), clock=bodies.clock) as fleet:
        await fleet.clock.advance(21)

        history = await fleet.history("sync")
    assert [attempt.state for attempt in history] == [RunState.FAILED] * 2


async def test_a_failed_run_is_not_started_again(bodies: Bodies) -> None:
    declare = every_10_s(bodies, then=ValueError("no"))
    async with Fleet(3, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance(60.5)

    assert bodies.slots() == slots(10, 60, 10)


async def test_an_error_is_in_the_history_as_it_reads(bodies: Bodies) -> None:
    async with Fleet(1, every_10_s(bodies, then=ValueError("no")), clock=bodies.clock) as fleet:
        await fleet.clock.advance(11)

        [attempt] = await fleet.history("sync")
    assert attempt.detail == "ValueError('no')"


async def test_a_coroutine_beyond_its_timeout_is_told_and_cancelled(bodies: Bodies) -> None:
    reasons: list[str | None] = []

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        work = bodies.taking(clock, 60)

        async def told(ctx: RunContext) -> None:
            try:
                await work(ctx)
            finally:
                reasons.append(ctx.signal.reason)

        scheduler.every("sync", "10s", told, jitter=0, timeout="3s")

    async with Fleet(2, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance(24)

        history = await fleet.history("sync")
    assert [(a.state, a.detail) for a in history] == [
        (RunState.FAILED, "timeout: took longer than 3s")
    ] * 2
    assert [body.ended for body in bodies.all] == [13, 23]
    assert reasons == ["timeout", "timeout"]


async def test_the_context_tells_when_the_timeout_ends_the_attempt(bodies: Bodies) -> None:
    def declare(scheduler: Scheduler, clock: Clock) -> object:
        return scheduler.every("sync", "10s", bodies.taking(clock), jitter=0, timeout="3s")

    async with Fleet(1, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance(11)

    [body] = bodies.all
    assert body.ctx.deadline == body.slot + timedelta(seconds=3)


async def test_a_coroutine_that_ignores_its_timeout_has_failed_all_the_same(
    bodies: Bodies,
) -> None:
    """Within one heartbeat, and so before its lease can lapse: a failure is not started again."""

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        async def deaf(ctx: RunContext) -> None:
            quick = ctx.attempt > 1
            work = bodies.taking(clock, 1 if quick else 100)
            body = asyncio.ensure_future(work(ctx))
            while not body.done():
                try:
                    await asyncio.wait({body})
                except asyncio.CancelledError:
                    continue

        scheduler.every("sync", "1h", deaf, jitter=0, timeout="10s")

    async with Fleet(2, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance(3600 + 10 + 5 + 0.1)
        [attempt] = await fleet.history("sync")
        assert (attempt.state, attempt.detail) == (
            RunState.FAILED,
            "timeout: took longer than 10s",
        )

        await fleet.clock.advance(100)
        assert bodies.attempts() == [1]


async def test_a_function_that_returns_a_coroutine_has_failed(bodies: Bodies) -> None:
    """Nobody would await it: to call that a success would lose the work."""

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        work = bodies.taking(clock)
        scheduler.every("sync", "10s", lambda ctx: work(ctx), jitter=0)

    async with Fleet(1, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance(11)
        await threads_reach(fleet, lambda: fleet.told(EventKind.FAILURE))

        [failure] = fleet.told(EventKind.FAILURE)
    assert isinstance(failure.error, TypeError)
    assert "async def" in str(failure.error)
    assert bodies.all == []


async def test_the_lease_is_kept_until_the_end_is_stored_whatever_the_timeout(
    bodies: Bodies,
) -> None:
    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("sync", "1h", bodies.taking(clock, 1), jitter=0, timeout="2s")

    async with Fleet(2, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(3600.5))
        runner_of = fleet.member_of(bodies.all[0].ctx.instance)
        finish = runner_of.faults.pass_on

        async def cut(verb: str, call: Any) -> Any:
            if verb == "finish":
                raise StoreUnavailable("memory://", "away for ends only, as the test wants it")
            return await finish(verb, call)

        runner_of.faults.pass_on = cut  # type: ignore[method-assign]
        await fleet.clock.advance(60)

        assert bodies.attempts() == [1]
