"""Every zone of the machine's database, on every day on which its clocks change.

The walk along the readings that `test_clock_changes` makes over forty years of two dozen
zones is made here over a few years of all of them.
"""

from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

import pytest

from anarchon.schedules import Cron
from tests.unit.schedules.clock_walk import (
    AROUND,
    MINUTE,
    Change,
    Clock,
    backwards,
    changes_of,
    forwards,
)

FIRST, LAST = 2025, 2026
#: An expression, and the minutes and hours that it names.
CRONS = [
    ("* * * * *", range(60), range(24)),
    ("0 0 * * *", {0}, {0}),
    ("30 2 * * *", {30}, {2}),
    ("*/20 0-4 * * *", {0, 20, 40}, range(5)),
]


@cache
def distinct_changes() -> dict[Change, str]:
    """Return each change once, with one of the zones that have it: most zones share theirs."""
    found: dict[Change, str] = {}
    for name in sorted(available_timezones()):
        if name.startswith(("posix", "right")) or name in ("localtime", "posixrules"):
            continue
        if len(offsets_of(name)) > 1:
            for change in changes_of(ZoneInfo(name), FIRST, LAST):
                found.setdefault(change, name)
    return found


def offsets_of(name: str) -> set[timedelta | None]:
    """Return the offsets on every tenth day: no two changes lie closer than Ramadan is long."""
    days = (datetime(FIRST, 1, 1, tzinfo=UTC) + timedelta(days=10 * n) for n in range(73))
    return {day.astimezone(ZoneInfo(name)).utcoffset() for day in days}


@pytest.mark.timeout(60)
def test_no_clock_change_of_any_zone_loses_doubles_or_breaks_a_slot():
    """G11."""
    changes = distinct_changes()
    assert len(changes) > 50

    for change, name in changes.items():
        clock = Clock(ZoneInfo(name), change)
        start, end = change.at - AROUND, change.at + AROUND
        for text, minutes, hours in CRONS:
            cron = Cron(text, name)
            expected = [
                slot
                for slot in clock.slots(
                    lambda reading, m=minutes, h=hours: reading.minute in m and reading.hour in h,
                    every_hour=len(hours) == 24,
                )
                if start <= slot < end
            ]
            assert forwards(cron, start, end) == expected, (name, text, change)
            assert backwards(cron, start, end) == expected, (name, text, change)


@pytest.mark.timeout(60)
def test_any_minute_of_a_day_of_change_can_be_asked_about():
    """Times that do not exist, or exist twice, are no error in any zone."""
    for change, name in distinct_changes().items():
        daily, yearly = Cron("30 2 * * *", name), Cron("0 0 29 2 *", name)
        moment, end = change.at - timedelta(days=1), change.at + timedelta(days=1)
        while moment < end:
            before, after = daily.latest_at(moment), daily.next_after(moment)
            assert before is not None
            assert after is not None
            assert before <= moment < after
            assert after - before <= timedelta(hours=50)
            moment += 7 * MINUTE
        assert yearly.next_after(change.at) is not None


def test_a_job_a_minute_has_a_slot_for_each_minute_that_passes_on_a_day_of_change():
    """No clock change makes thousands of slots, or none."""
    for change, name in distinct_changes().items():
        start = datetime(change.at.year, change.at.month, change.at.day, tzinfo=UTC)
        day = forwards(Cron("* * * * *", name), start, start + timedelta(days=1))
        assert len(day) == 24 * 60, (name, change)
