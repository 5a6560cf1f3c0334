"""The time zone of the machine or the container decides nothing."""

import time
from datetime import UTC, datetime, timedelta

import pytest

from anarchon.schedules import At, Cron, CronSets, Every, Schedule

NOON = datetime(2026, 6, 15, 12, tzinfo=UTC)
SCHEDULES: list[Schedule] = [
    Cron("0 0 * * *"),
    Cron("30 2 * * *", "America/New_York"),
    Cron("0 0 L * *", "Europe/Athens"),
    CronSets([0], [8], range(1, 32), range(1, 13), range(7), "Asia/Tokyo"),
    Every("1d"),
    At(datetime(2026, 6, 16, 9, tzinfo=UTC)),
]


@pytest.mark.parametrize(
    "machine", ["UTC", "America/New_York", "Asia/Kolkata", "Pacific/Kiritimati", "EST5EDT"]
)
def test_slots_and_fingerprints_are_the_same_in_whatever_zone_the_machine_is(
    machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G11."""
    told = [_all_of(schedule) for schedule in SCHEDULES]

    monkeypatch.setenv("TZ", machine)
    time.tzset()
    try:
        there = [_all_of(schedule) for schedule in SCHEDULES]
    finally:
        monkeypatch.undo()
        time.tzset()

    assert there == told


def _all_of(schedule: Schedule) -> tuple[object, ...]:
    moments = [NOON + timedelta(days=days) for days in range(0, 365, 10)]
    slots = [(schedule.next_after(moment), schedule.latest_at(moment)) for moment in moments]
    return (*slots, schedule.fingerprint(NOON), schedule.canonical())
