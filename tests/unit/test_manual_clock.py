"""Time that moves when a test says so, from one thing that is due to the next."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from anarchon.testing import InstanceClock, ManualClock


async def test_time_stands_still_until_told() -> None:
    clock = ManualClock(datetime(2026, 3, 1, tzinfo=UTC))

    assert (clock.monotonic(), clock.wall()) == (0, datetime(2026, 3, 1, tzinfo=UTC))
    await clock.advance(1.5)
    await clock.advance(timedelta(hours=1))

    assert clock.monotonic() == 3601.5
    assert clock.wall() == datetime(2026, 3, 1, 1, 0, 1, 500_000, tzinfo=UTC)


async def test_timers_fire_in_order_and_see_their_own_moment() -> None:
    clock = ManualClock()
    fired: list[tuple[str, float]] = []

    for name, seconds in (("b", 2.0), ("a", 1.0), ("c", 3.0)):
        clock.call_later(seconds, lambda name=name: fired.append((name, clock.monotonic())))  # type: ignore[misc]
    await clock.advance(2.5)

    assert fired == [("a", 1), ("b", 2)]
    assert clock.monotonic() == 2.5


async def test_what_follows_from_a_timer_happens_before_time_moves_on() -> None:
    clock = ManualClock()
    seen: list[float] = []

    async def chain() -> None:
        for _ in range(3):
            await clock.sleep(1)
            seen.append(clock.monotonic())

    task = asyncio.create_task(chain())
    await clock.advance(10)
    await task

    assert seen == [1, 2, 3]


async def test_a_cancelled_timer_does_not_fire() -> None:
    clock = ManualClock()
    fired: list[str] = []
    clock.call_later(1, lambda: fired.append("no")).cancel()

    await clock.advance(2)

    assert fired == []


async def test_nobody_is_woken_before_the_moment_asked_for() -> None:
    """A float may lie between two microseconds: who is woken early asks again for ever."""
    clock = ManualClock()
    until = 0.1234567891

    await_until = asyncio.create_task(_sleep_until(clock, until))
    await clock.advance(1)

    assert await await_until <= 3


async def _sleep_until(clock: ManualClock, until: float) -> int:
    turns = 0
    while clock.monotonic() < until:
        turns += 1
        await clock.sleep(until - clock.monotonic())
    return turns


async def test_a_condition_is_advanced_to_and_no_further_than_allowed() -> None:
    clock = ManualClock()

    await clock.advance_until(lambda: clock.monotonic() >= 7)
    assert 7 <= clock.monotonic() <= 7.1
    with pytest.raises(TimeoutError):
        await clock.advance_until(lambda: False, within=5)


async def test_a_frozen_instance_wakes_for_nothing_until_it_thaws() -> None:
    clock = ManualClock()
    frozen, free = InstanceClock(clock), InstanceClock(clock)
    woken: list[tuple[str, float]] = []

    async def sleep(name: str, view: InstanceClock) -> None:
        await view.sleep(1)
        woken.append((name, view.monotonic()))

    tasks = [asyncio.create_task(sleep("frozen", frozen)), asyncio.create_task(sleep("free", free))]
    await clock.advance(0)
    frozen.freeze()
    await clock.advance(60)
    assert woken == [("free", 1)]
    frozen.thaw()
    await asyncio.gather(*tasks)

    assert woken == [("free", 1), ("frozen", 60)]


def test_an_instance_may_read_another_wall_time() -> None:
    clock = ManualClock()
    view = InstanceClock(clock, wall_is_off_by=timedelta(minutes=-5))

    assert clock.wall() - view.wall() == timedelta(minutes=5)
    assert view.monotonic() == clock.monotonic()
