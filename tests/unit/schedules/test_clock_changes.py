"""Every change of the clocks of twenty-odd zones, against a walk along their readings.

What is expected comes from the time zone data of the machine, whatever their edition.
"""

from datetime import UTC, timedelta, tzinfo
from zoneinfo import ZoneInfo

import pytest

from anarchon.schedules import Cron
from tests.unit.schedules.clock_walk import AROUND, Clock, at, backwards, changes_of, forwards

ZONES = [
    "Africa/Cairo",
    "Africa/Casablanca",
    "America/Caracas",
    "America/Havana",
    "America/New_York",
    "America/Santiago",
    "America/Sao_Paulo",
    "America/St_Johns",
    "Antarctica/Casey",
    "Antarctica/Troll",
    "Asia/Amman",
    "Asia/Beirut",
    "Asia/Kathmandu",
    "Asia/Pyongyang",
    "Asia/Tehran",
    "Atlantic/Azores",
    "Australia/Lord_Howe",
    "Europe/Athens",
    "Europe/Dublin",
    "Europe/Moscow",
    "Pacific/Apia",
    "Pacific/Chatham",
    "Pacific/Kiritimati",
    "Pacific/Kwajalein",
]

# (expression, minutes, hours): the day fields are left free, other tests have them.
HOURS = range(24)
CRONS = [
    ("0 * * * *", {0}, HOURS),
    ("*/7 * * * *", set(range(0, 60, 7)), HOURS),
    ("30 0-23 * * *", {30}, HOURS),
    ("0 0 * * *", {0}, {0}),
    ("30 0 * * *", {30}, {0}),
    ("30 1 * * *", {30}, {1}),
    ("30 2 * * *", {30}, {2}),
    ("0 3 * * *", {0}, {3}),
    ("59 23 * * *", {59}, {23}),
    ("0 */2 * * *", {0}, range(0, 24, 2)),
    ("*/20 0-4 * * *", {0, 20, 40}, range(5)),
    ("5 0-22 * * *", {5}, range(23)),
]


@pytest.mark.parametrize("name", ZONES)
def test_slots_around_every_clock_change_are_those_a_walk_along_the_clock_finds(name):
    """G11: across every change of offset there is one set of slots, and it is the right one."""
    zone = ZoneInfo(name)
    changes = changes_of(zone, 1985, 2027)
    crons = [(Cron(text, name), minutes, hours) for text, minutes, hours in CRONS]

    for change in changes:
        clock = Clock(zone, change)
        for cron, minutes, hours in crons:
            expected = clock.slots(
                lambda reading, m=minutes, h=hours: reading.minute in m and reading.hour in h,
                every_hour=len(hours) == 24,
            )
            # A first pass from before the window makes its readings there repeats.
            start, end = change.at - AROUND, change.at + AROUND
            expected = [slot for slot in expected if start <= slot < end]
            assert forwards(cron, start, end) == expected, (cron, change)
            assert backwards(cron, start, end) == expected, (cron, change)


def test_the_zones_of_this_test_change_their_clocks():
    """Otherwise the walk above would pass without having looked at anything."""
    assert all(changes_of(ZoneInfo(name), 1985, 2027) for name in ZONES)


def slots(cron, start, count):
    found, moment = [], at(start)
    for _ in range(count):
        moment = cron.next_after(moment)
        found.append(moment.isoformat().replace("+00:00", "Z"))
    return found


def test_a_skipped_named_time_is_one_slot_at_the_instant_of_the_jump():
    cron = Cron("30 2 * * *", "America/New_York")

    assert slots(cron, "2025-03-08T12:00:00Z", 2) == [
        "2025-03-09T07:00:00Z",
        "2025-03-10T06:30:00Z",
    ]


def test_several_skipped_times_and_a_regular_slot_at_the_jump_are_one_slot():
    cron = Cron("*/15 2-3 * * *", "America/New_York")

    assert slots(cron, "2025-03-09T05:00:00Z", 3) == [
        "2025-03-09T07:00:00Z",
        "2025-03-09T07:15:00Z",
        "2025-03-09T07:30:00Z",
    ]


def test_a_repeated_named_time_is_one_slot_on_its_first_pass():
    cron = Cron("30 1 * * *", "America/New_York")

    assert slots(cron, "2025-11-01T12:00:00Z", 2) == [
        "2025-11-02T05:30:00Z",
        "2025-11-03T06:30:00Z",
    ]


def test_an_hourly_cron_has_a_slot_on_both_passes_of_a_repeated_hour():
    cron = Cron("0 * * * *", "America/New_York")

    assert slots(cron, "2025-11-02T04:30:00Z", 3) == [
        "2025-11-02T05:00:00Z",
        "2025-11-02T06:00:00Z",
        "2025-11-02T07:00:00Z",
    ]


def test_times_of_a_day_that_never_was_are_not_made_up_for():
    cron = Cron("30 2 * * *", "Pacific/Apia")

    assert slots(cron, "2011-12-29T00:00:00Z", 2) == [
        "2011-12-29T12:30:00Z",
        "2011-12-30T12:30:00Z",
    ]


def test_a_skipped_midnight_is_no_endless_loop():
    cron = Cron("0 0 * * *", "America/Santiago")

    assert slots(cron, "2019-09-07T12:00:00Z", 2) == [
        "2019-09-08T04:00:00Z",
        "2019-09-09T03:00:00Z",
    ]


@pytest.mark.timeout(5)
@pytest.mark.parametrize("name", ["Pacific/Apia", "Pacific/Kwajalein", "America/Santiago"])
def test_a_cron_of_every_second_passes_a_skipped_day_at_once(name):
    cron = Cron("* * * * * *", name)
    zone = ZoneInfo(name)

    for change in changes_of(zone, 1985, 2012):
        second = timedelta(seconds=1)
        assert cron.next_after(change.at - second) == change.at
        assert cron.latest_at(change.at - second / 2) == change.at - second


def test_a_skipped_time_with_seconds_is_one_slot_at_the_jump():
    cron = Cron("30 2 * * * 15,45", "America/New_York")

    assert slots(cron, "2025-03-09T00:00:00Z", 3) == [
        "2025-03-09T07:00:00Z",
        "2025-03-10T06:30:15Z",
        "2025-03-10T06:30:45Z",
    ]


def test_a_rare_hourly_cron_does_not_miss_the_second_pass_of_its_last_hour():
    cron = Cron("30 * 17 2 *", "America/Sao_Paulo")

    assert slots(cron, "2018-02-18T01:15:00Z", 3) == [
        "2018-02-18T01:30:00Z",
        "2018-02-18T02:30:00Z",
        "2019-02-17T03:30:00Z",
    ]


def test_during_a_second_pass_the_newest_slot_of_a_rare_cron_is_its_first_pass():
    cron = Cron("45 23 17 2 *", "America/Sao_Paulo")

    assert cron.latest_at(at("2018-02-18T02:10:00Z")) == at("2018-02-18T01:45:00Z")
    assert cron.next_after(at("2018-02-18T02:10:00Z")) == at("2019-02-18T02:45:00Z")


def test_a_day_of_the_month_that_begins_with_a_jump_keeps_its_slot():
    cron = Cron("0 0 4 11 *", "America/Sao_Paulo")

    assert slots(cron, "2018-11-03T00:00:00Z", 1) == ["2018-11-04T03:00:00Z"]


class OneChange(tzinfo):
    """A zone that changes its offset once, at a moment no real zone did."""

    def __init__(self, change, before, after):
        self.change, self.before, self.after = change, before, after

    def fromutc(self, moment):
        offset = self.before if moment.replace(tzinfo=UTC) < self.change else self.after
        repeated = (moment - self.before).replace(tzinfo=UTC) + self.after < self.change
        return (moment + offset).replace(fold=int(offset == self.after and repeated))

    def utcoffset(self, moment):
        first = (moment.replace(tzinfo=UTC) - self.before) < self.change
        return self.before if first and not moment.fold else self.after

    dst = tzname = utcoffset


def in_zone(expression, zone):
    cron = Cron(expression)
    object.__setattr__(cron, "_zone", zone)
    return cron


def test_a_repeat_that_runs_into_the_new_year_is_still_a_repeat():
    hour, none = timedelta(hours=1), timedelta(0)
    cron = in_zone("15 0 * * *", OneChange(at("2025-12-31T23:30:00Z"), before=hour, after=none))

    assert slots(cron, "2025-12-31T12:00:00Z", 2) == [
        "2025-12-31T23:15:00Z",
        "2026-01-02T00:15:00Z",
    ]
    assert cron.latest_at(at("2026-01-01T12:00:00Z")) == at("2025-12-31T23:15:00Z")


def test_times_skipped_as_the_year_begins_are_made_up_for():
    hour, none = timedelta(hours=1), timedelta(0)
    cron = in_zone("30 0 * * *", OneChange(at("2026-01-01T00:00:00Z"), before=none, after=hour))

    assert slots(cron, "2025-12-31T12:00:00Z", 2) == [
        "2026-01-01T00:00:00Z",
        "2026-01-01T23:30:00Z",
    ]
    assert cron.latest_at(at("2026-01-01T12:00:00Z")) == at("2026-01-01T00:00:00Z")
