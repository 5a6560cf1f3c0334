"""One heap of what is due next: no slot is lost, doubled, or made up for."""

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from anarchon.clock import EPOCH
from anarchon.job import Job, define
from anarchon.run import RunContext
from anarchon.scheduler.timers import MOST_COUNTED, JobTimers, allowed_lateness
from anarchon.schedules import At, Every, Schedule

START = datetime(2026, 1, 1, tzinfo=UTC)


async def nothing(ctx: RunContext) -> None:
    pass


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def a_job(schedule: Schedule | str = "10s", name: str = "sync", **options: Any) -> Job:
    found = Every(schedule) if isinstance(schedule, str) else schedule
    return define(name, found, nothing, {"jitter": 0, **options})


def armed(*jobs: Job, now: float = 0) -> JobTimers:
    timers = JobTimers()
    assert timers.start(jobs, at(now)) == []
    return timers


def due(timers: JobTimers, seconds: float) -> list[tuple[float, int]]:
    """Return what is due at a moment: seconds of the slot, and how many were missed."""
    ready, broken = timers.due(at(seconds))
    assert broken == []
    return [((one.slot - START).total_seconds(), one.missed) for one in ready]


def test_the_first_slot_is_the_one_after_now() -> None:
    assert armed(a_job(), now=0).wakes_at() == at(10)
    assert armed(a_job(), now=9.999).wakes_at() == at(10)
    assert armed(a_job(), now=10).wakes_at() == at(20)


def test_the_next_slot_is_armed_when_one_is_handed_out() -> None:
    timers = armed(a_job())

    assert due(timers, 10) == [(10, 0)]
    assert timers.wakes_at() == at(20)
    assert due(timers, 10) == []


def test_a_timer_that_wakes_early_hands_out_nothing_and_stays_armed() -> None:
    timers = armed(a_job())

    for early in (9.5, 9.987, 9.999999):
        assert due(timers, early) == []
        assert timers.wakes_at() == at(10)
    assert due(timers, 10.000001) == [(10, 0)]


def test_a_timer_that_always_wakes_late_loses_no_slot() -> None:
    timers = armed(a_job())

    handed_out = [slot for n in range(1, 101) for slot, _ in due(timers, 10 * n + 9.9)]

    assert handed_out == [10.0 * n for n in range(1, 101)]


def test_a_slot_that_may_still_start_is_not_jumped_over() -> None:
    """The timers slept through one and a half intervals."""
    timers = armed(a_job("10s"))

    assert due(timers, 25) == [(10, 0), (20, 0)]


def test_what_is_too_late_to_start_is_one_jump_to_the_newest_slot() -> None:
    timers = armed(a_job("10s"))

    assert due(timers, 65) == [(10, 0), (60, 4)]
    assert timers.wakes_at() == at(70)


def test_a_million_missed_slots_cost_no_more_than_a_few() -> None:
    asked = itertools.count()

    class Counted(Every):
        def next_after(self, moment: datetime, /) -> datetime | None:
            next(asked)
            return super().next_after(moment)

    timers = armed(a_job(Counted("1s")))
    next_before = next(asked)

    [_, (newest, missed)] = due(timers, 1_000_000.5)

    assert (newest, missed) == (1_000_000, MOST_COUNTED)
    assert next(asked) - next_before < 2 * MOST_COUNTED


def test_a_slot_older_than_max_late_is_handed_out_all_the_same() -> None:
    """Who runs the protocol says that it is late, and looks whether somebody else was not."""
    timers = armed(a_job("10m", max_late="30s"))

    assert due(timers, 700) == [(600, 0)]


def test_a_clock_set_back_arms_the_first_slot_after_now() -> None:
    timers = armed(a_job())
    due(timers, 3600)

    assert due(timers, 1805) == []

    assert timers.wakes_at() == at(1810)


def test_a_clock_set_back_by_less_than_a_second_is_a_better_estimate() -> None:
    timers = armed(a_job())
    due(timers, 10.5)

    assert due(timers, 9.6) == []

    assert timers.wakes_at() == at(20)


def test_a_job_of_one_slot_is_done_after_it() -> None:
    timers = armed(a_job(At(at(30))))

    assert due(timers, 30) == [(30, 0)]
    assert (len(timers), timers.wakes_at()) == (0, None)


def test_a_clock_set_back_does_not_lose_a_job_of_one_slot() -> None:
    timers = armed(a_job(), a_job(At(at(7000)), name="once"))
    due(timers, 3600)

    due(timers, 10)

    assert due(timers, 7000)[-1][0] == 7000


def test_slots_come_in_the_order_of_their_wake() -> None:
    timers = armed(*(a_job(f"{n}s", name=f"every {n}") for n in (7, 3, 5)))

    handed_out = [slot for second in range(1, 21) for slot, _ in due(timers, second)]

    assert handed_out == sorted(handed_out)
    assert len(handed_out) == 20 // 7 + 20 // 3 + 20 // 5


@pytest.mark.parametrize(("interval", "longest"), [("10s", 0.5), ("2s", 0.2), ("1h", 0.5)])
def test_jitter_is_random_and_never_past_a_tenth_of_the_interval(
    interval: str, longest: float
) -> None:
    waits = set()
    for _ in range(300):
        timers = armed(a_job(interval, jitter="500ms"))
        wakes_at = timers.wakes_at()
        assert wakes_at is not None
        first = Every(interval).next_after(START)
        assert first is not None
        waits.add((wakes_at - first).total_seconds())

    assert 0 <= min(waits) < longest / 10
    assert longest * 0.9 < max(waits) <= longest
    assert len(waits) > 100


def test_a_slot_may_start_until_max_late_and_never_past_the_next_slot() -> None:
    assert allowed_lateness(a_job("1h"), at(3600)) == timedelta(minutes=5)
    assert allowed_lateness(a_job("10s"), at(10)) == timedelta(seconds=10)
    assert allowed_lateness(a_job("1h", max_late="20s"), at(3600)) == timedelta(seconds=20)
    assert allowed_lateness(a_job(At(at(30))), at(30)) == timedelta(minutes=5)


def test_a_due_slot_says_until_when_it_may_start() -> None:
    timers = armed(a_job("10s"), a_job("1h", name="rare"))
    timers.due(at(3599.9))

    within = {one.job.name: one.within for one in timers.due(at(3600))[0]}

    assert within == {"sync": timedelta(seconds=10), "rare": timedelta(minutes=5)}


class Fails:
    """A schedule of whole hours that fails when the test says so."""

    def __init__(self) -> None:
        self.now = False

    def next_after(self, moment: datetime, /) -> datetime | None:
        if self.now:
            raise ArithmeticError("no such moment")
        return Every("1h").next_after(moment)

    def latest_at(self, moment: datetime, /) -> datetime | None:
        if self.now:
            raise ArithmeticError("no such moment")
        return Every("1h").latest_at(moment)

    def canonical(self) -> str:
        return "fails"

    def fingerprint(self, now: datetime, /) -> str:
        return "fails"


@pytest.mark.parametrize("moment", [3600, 1805, 90_000])
def test_a_schedule_that_fails_falls_out_alone(moment: float) -> None:
    """When its slot is due, when the clock was set back, when slots were missed."""
    bad = Fails()
    good = [a_job("1h", name=f"good {n}") for n in range(5)]
    timers = armed(*good[:2], a_job(bad, name="bad"), *good[2:])
    timers.due(at(3599) if moment >= 3600 else at(3000))
    bad.now = True

    _, broken = timers.due(at(moment))
    later = [
        one.job.name
        for second in (moment + 3600, moment + 7200)
        for one in timers.due(at(second))[0]
    ]

    assert [(job.name, type(error)) for job, error in broken] == [("bad", ArithmeticError)]
    assert "bad" not in later
    assert {name for name in later if later.count(name) >= 2} == {job.name for job in good}


def test_a_schedule_that_fails_at_once_falls_out_alone() -> None:
    bad = Fails()
    bad.now = True
    timers = JobTimers()

    broken = timers.start([a_job(bad, name="bad"), a_job("10s")], START)

    assert [job.name for job, _ in broken] == ["bad"]
    assert timers.wakes_at() == at(10)


def test_ten_thousand_jobs_are_armed_by_their_own_slots() -> None:
    jobs = [a_job("1h", name=str(n)) for n in range(5000)] + [a_job(At(EPOCH), name="past")]
    timers = armed(*jobs)

    assert len(timers) == 5000
    ready, _ = timers.due(at(3600))
    assert len(ready) == 5000
