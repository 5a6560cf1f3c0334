"""Moments as stores keep them, and time as the machine has it."""

import asyncio
import time
from datetime import UTC, datetime, timedelta

import pytest

from anarchon.clock import Bell, SystemClock, from_millis, rfc3339, to_millis
from anarchon.testing import ManualClock


@pytest.mark.parametrize(
    ("moment", "millis"),
    [
        (datetime(1970, 1, 1, tzinfo=UTC), 0),
        (datetime(1970, 1, 1, 0, 0, 0, 1_000, tzinfo=UTC), 1),
        (datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), -1),
        (datetime(2026, 11, 29, 12, 0, 10, 123_999, tzinfo=UTC), 1_795_953_610_123),
        (datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC), 253_402_300_799_999),
    ],
)
def test_a_moment_is_kept_in_whole_milliseconds_rounded_down(moment: datetime, millis: int) -> None:
    assert to_millis(moment) == millis
    assert moment - from_millis(millis) < timedelta(milliseconds=1)
    assert to_millis(from_millis(millis)) == millis


def test_a_moment_is_written_in_utc_with_milliseconds() -> None:
    assert rfc3339(datetime(2026, 11, 29, 12, 0, 10, tzinfo=UTC)) == "2026-11-29T12:00:10.000Z"
    assert rfc3339(datetime(2026, 1, 2, 3, 4, 5, 67_890, tzinfo=UTC)) == "2026-01-02T03:04:05.067Z"


def test_the_machine_s_monotonic_clock_counts_suspend_where_it_can() -> None:
    expected = (
        time.clock_gettime(time.CLOCK_BOOTTIME)
        if hasattr(time, "CLOCK_BOOTTIME")
        else time.monotonic()  # noqa: TID251 - what the clock is compared with
    )

    assert abs(SystemClock().monotonic() - expected) < 1


def test_the_machine_s_wall_clock_is_utc_and_aware() -> None:
    assert SystemClock().wall().utcoffset() == timedelta(0)


async def test_sleep_lets_others_go_first_even_for_no_time() -> None:
    went: list[str] = []
    asyncio.get_running_loop().call_soon(went.append, "other")

    await SystemClock().sleep(-1)

    assert went == ["other"]


async def test_a_timeout_cancels_its_body_and_nothing_else() -> None:
    clock = ManualClock()
    reached: list[str] = []

    async def patient() -> None:
        try:
            async with clock.timeout(5):
                await asyncio.Event().wait()
        except TimeoutError:
            reached.append("over")
        await clock.sleep(1)
        reached.append("went on")

    task = asyncio.create_task(patient())
    await clock.advance(4.9)
    assert reached == []
    await clock.advance(0.2)
    assert reached == ["over"]
    await clock.advance(1)
    await task

    assert reached == ["over", "went on"]


async def test_a_timeout_that_was_not_needed_leaves_no_timer() -> None:
    clock = ManualClock()

    async with clock.timeout(5):
        pass
    await clock.advance(10)  # would cancel this very test


async def test_a_cancellation_from_outside_is_no_timeout() -> None:
    clock = ManualClock()

    async def patient() -> None:
        async with clock.timeout(5):
            await asyncio.Event().wait()

    task = asyncio.create_task(patient())
    await clock.advance(1)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_waiting_for_an_event_tells_whether_it_is_set() -> None:
    clock, event = ManualClock(), Bell()

    waiting = asyncio.create_task(clock.wait(event, 5))
    await clock.advance(5.1)
    assert await waiting is False

    waiting = asyncio.create_task(clock.wait(event, 5))
    await clock.advance(1)
    event.set()
    assert await waiting is True


async def test_the_machine_s_clock_waits_for_events_too() -> None:
    clock, event = SystemClock(), Bell()

    assert await clock.wait(event, 0.01) is False
    event.set()
    assert await clock.wait(event, 10) is True
