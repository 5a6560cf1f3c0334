"""A loop that never waits: its time jumps from timer to timer."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import pytest

from anarchon.testing import InstanceClock
from anarchon.testing.virtual_time import VirtualClock, VirtualLoop

T = TypeVar("T")
START = datetime(2026, 1, 1, tzinfo=UTC)


def lived(main: Callable[[VirtualClock], Awaitable[T]]) -> T:
    loop = VirtualLoop()
    try:

        async def whole() -> T:
            return await main(VirtualClock(loop, START))

        return loop.run_until_complete(whole())
    finally:
        loop.close()


def test_a_month_of_sleep_is_over_at_once() -> None:
    async def main(clock: VirtualClock) -> datetime:
        await clock.sleep(30 * 86_400)
        return clock.wall()

    assert lived(main) == START + timedelta(days=30)


def test_timers_fire_in_the_order_of_their_moments() -> None:
    async def main(clock: VirtualClock) -> list[float]:
        moments: list[float] = []
        for seconds in (3, 1, 2):
            clock.call_later(seconds, lambda: moments.append(clock.monotonic()))
        await clock.sleep(4)
        return moments

    assert lived(main) == [1, 2, 3]


@pytest.mark.parametrize("seconds", [1e-9, 0.1 + 0.2, 1 / 3, 86_400.000_000_4])
def test_nobody_is_woken_before_the_moment_asked_for(seconds: float) -> None:
    async def main(clock: VirtualClock) -> float:
        await clock.sleep(1_000_000.3)
        before = clock.monotonic()
        await clock.sleep(seconds)
        return clock.monotonic() - before

    assert seconds <= lived(main) + 1e-9
    assert lived(main) <= seconds + 2e-6


def test_a_function_meant_for_a_thread_runs_on_the_loop() -> None:
    async def main(clock: VirtualClock) -> tuple[int, BaseException | None]:
        loop = asyncio.get_running_loop()
        good = await loop.run_in_executor(None, len, "abc")
        bad = loop.run_in_executor(None, int, "x")
        await asyncio.wait({bad})
        return good, bad.exception()

    good, bad = lived(main)
    assert good == 3
    assert isinstance(bad, ValueError)


def test_waiting_for_what_will_never_happen_is_an_error_and_no_hang() -> None:
    async def main(clock: VirtualClock) -> None:
        await asyncio.Event().wait()

    with pytest.raises(RuntimeError, match="nothing will ever happen"):
        lived(main)


def test_the_seconds_of_an_instance_may_be_too_long_or_too_short() -> None:
    async def main(clock: VirtualClock) -> tuple[float, float]:
        slow = InstanceClock(clock)
        slow.rate = 0.5
        await slow.sleep(10)
        return clock.monotonic(), slow.monotonic()

    assert lived(main) == (20, 10)


def test_an_instance_that_is_woken_early_gets_there_in_the_end() -> None:
    async def main(clock: VirtualClock) -> list[float]:
        hasty = InstanceClock(clock)
        hasty.wakes_early_by = 0.02
        woken: list[float] = []
        while hasty.monotonic() < 5:
            await hasty.sleep(5 - hasty.monotonic())
            woken.append(hasty.monotonic())
        return woken

    woken = lived(main)
    assert 4.98 <= woken[0] < 5
    assert woken[-1] >= 5
    assert len(woken) < 100
