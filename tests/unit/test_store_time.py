"""The store's clock as an instance knows it: an offset to its own, from the quickest answers."""

from datetime import UTC, datetime, timedelta

import pytest

from anarchon.clock import EPOCH
from anarchon.store_time import StoreTime
from anarchon.testing import InstanceClock, ManualClock

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def seconds_off(time: StoreTime, clock: ManualClock, truth_at_zero: datetime = NOON) -> float:
    truth = truth_at_zero + timedelta(seconds=clock.monotonic())
    return (time.now() - truth).total_seconds()


def told(at: float, truth_at_zero: datetime = NOON) -> datetime:
    """Return what a store says at a moment of our clock: whole milliseconds, rounded down."""
    exact = truth_at_zero + timedelta(seconds=at)
    return EPOCH + (exact - EPOCH) // timedelta(milliseconds=1) * timedelta(milliseconds=1)


def test_before_the_first_answer_the_wall_clock_counts() -> None:
    clock = InstanceClock(ManualClock(NOON), wall_is_off_by=timedelta(hours=1))

    assert StoreTime(clock).now() == NOON + timedelta(hours=1)


@pytest.mark.parametrize("hours", [-1, 1])
async def test_after_an_answer_the_wall_clock_does_not_count(hours: int) -> None:
    clock = ManualClock(NOON)
    view = InstanceClock(clock, wall_is_off_by=timedelta(hours=hours))
    time = StoreTime(view)

    time.observe(0, 0, NOON)
    await clock.advance(100)

    assert abs(seconds_off(time, clock)) <= 0.001


def test_an_answer_belongs_to_the_middle_of_its_call() -> None:
    clock = ManualClock(NOON)
    time = StoreTime(clock)

    time.observe(10, 10.4, told(10.2))

    assert abs(seconds_off(time, clock)) <= 0.001


def test_the_estimate_is_not_ahead_of_a_store_that_answers_at_once() -> None:
    """A claim that comes before its slot is lost for a round of gathering."""
    clock = ManualClock(NOON)
    time = StoreTime(clock)

    for at in (0.0, 0.0004, 0.0007, 0.0009):
        time.observe(at, at, told(at))

        assert -0.0011 <= seconds_off(time, clock) <= 1e-6


def test_a_quicker_answer_is_a_better_one_and_a_slower_one_is_not() -> None:
    clock = ManualClock(NOON)
    time = StoreTime(clock)

    time.observe(0, 0.4, told(0.01))  # asymmetric: 190 ms off
    assert abs(seconds_off(time, clock)) > 0.1
    time.observe(1, 1.01, told(1.005))
    assert abs(seconds_off(time, clock)) < 0.006
    time.observe(2, 2.4, told(2.01))

    assert abs(seconds_off(time, clock)) < 0.006


def test_a_good_sample_is_worth_less_the_older_it_is() -> None:
    """The two clocks drift apart: an old offset is worth less than a slow answer of now."""
    clock = ManualClock(NOON)
    time = StoreTime(clock)
    time.observe(0, 0.001, told(0.0))
    drifted = NOON + timedelta(seconds=0.02)

    time.observe(59, 59.2, told(59.1, drifted))
    assert abs(seconds_off(time, clock)) < 0.002
    time.observe(119, 119.2, told(119.1, drifted))

    assert abs(seconds_off(time, clock, drifted)) < 0.002


@pytest.mark.parametrize("step", [-86_400, -3600, -1, -0.05, 0.05, 1, 3600, 86_400])
def test_a_store_clock_that_was_set_is_believed_at_the_next_answer(step: float) -> None:
    clock = ManualClock(NOON)
    time = StoreTime(clock)
    time.observe(0, 0.002, told(0.001))
    after = NOON + timedelta(seconds=step)

    time.observe(1, 1.02, told(1.01, after))

    assert abs(seconds_off(time, clock, after)) <= 0.011


def test_whoever_sleeps_by_the_old_time_is_told_that_the_clock_was_set_and_of_nothing_else() -> (
    None
):
    clock = ManualClock(NOON)
    time = StoreTime(clock)
    told_at: list[float] = []
    time.when_set = lambda: told_at.append(seconds_off(time, clock))

    time.observe(0, 0.02, told(0.01))
    time.observe(1, 1.002, told(1.001))
    assert told_at == []
    time.observe(2, 2.002, told(2.001, NOON + timedelta(seconds=5)))

    assert told_at == [pytest.approx(5, abs=0.01)]
