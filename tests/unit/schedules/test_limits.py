"""The ends of what a datetime can say: no slot there is an answer, never an error."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from anarchon.schedules import At, Cron, Every
from tests.unit.schedules.clock_walk import forwards

FIRST = datetime.min.replace(tzinfo=UTC)
LAST = datetime.max.replace(tzinfo=UTC)
SCHEDULES = [
    Cron("* * * * * *"),
    Cron("0 * * * *", "America/New_York"),
    Cron("30 2 * * *", "Pacific/Kiritimati"),
    Cron("0 0 29 2 1", "Asia/Tokyo", day="and"),
    Every("1w"),
    Every("1ms"),
]
# The same instants, said in a zone in which UTC could not say them.
BEYOND_LAST = datetime.max.replace(tzinfo=timezone(timedelta(hours=-12)))
BEYOND_FIRST = datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_after_the_last_moment_there_is_no_slot(schedule):
    assert schedule.next_after(LAST) is None
    assert schedule.next_after(BEYOND_LAST) is None


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_the_newest_slot_of_all_and_the_first_are_found(schedule):
    assert schedule.latest_at(LAST).year > 9960
    assert schedule.latest_at(BEYOND_LAST) == schedule.latest_at(LAST)
    assert schedule.next_after(FIRST).year < 40
    assert schedule.next_after(BEYOND_FIRST) == schedule.next_after(FIRST)


@pytest.mark.parametrize("schedule", SCHEDULES[:4], ids=str)
def test_before_the_first_moments_there_is_no_slot(schedule):
    assert schedule.latest_at(FIRST) is None
    assert schedule.latest_at(BEYOND_FIRST) is None


def test_the_chain_of_slots_ends_with_none():
    cron = Cron("0 0 * * *", "Europe/Athens")

    slots = forwards(cron, datetime(9999, 12, 20, tzinfo=UTC), LAST)

    assert 5 < len(slots) < 15


def test_the_first_and_last_moments_can_be_slots_of_their_own():
    assert At(FIRST).latest_at(FIRST) == FIRST
    assert At(FIRST).next_after(FIRST) is None


@pytest.mark.parametrize("schedule", [*SCHEDULES, At(FIRST)], ids=str)
def test_a_naive_moment_is_refused(schedule):
    naive = datetime(2026, 1, 1)  # noqa: DTZ001

    with pytest.raises(ValueError, match="time zone"):
        schedule.next_after(naive)
    with pytest.raises(ValueError, match="time zone"):
        schedule.latest_at(naive)
