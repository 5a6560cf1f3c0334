"""The texts and hashes by which instances tell whether they mean the same schedule."""

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from anarchon.schedules import At, Cron, CronSets, Every

NOW = datetime(2026, 6, 15, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("schedule", "text"),
    [
        (Cron("0 * * * *"), "cron 0 * * * * and UTC"),
        (Cron("0 0-23 * * *"), "cron 0 * * * * and UTC"),
        (Cron("*/15 0-5 * * *"), "cron 0,15,30,45 0-5 * * * and UTC"),
        (Cron("0 8 * * MON-FRI", "Europe/Athens"), "cron 0 8 * * 1-5 and Europe/Athens"),
        (Cron("0 0 13 * 5"), "cron 0 0 13 * 5 or UTC"),
        (Cron("0 0 13 * 5", day="and"), "cron 0 0 13 * 5 and UTC"),
        (Cron("0 0 13 * *", day="or"), "cron 0 0 13 * * and UTC"),
        (Cron("0 0 1-31 * 5", day="or"), "cron 0 0 * * * and UTC"),
        (Cron("0 0 1-31 * 5", day="and"), "cron 0 0 * * 5 and UTC"),
        (Cron("0 0 1 JAN,FEB,DEC *"), "cron 0 0 1 1-2,12 * and UTC"),
        (Cron("* * * * * 0,30"), "cron * * * * * 0,30 and UTC"),
        (Cron("0 0 L * *"), "cron 0 0 L * * and UTC croniter-7"),
        (Cron("0 0 1,15W,L * 5#2"), "cron 0 0 1,15W,L * 5#2 or UTC croniter-7"),
        (Cron("0 0 * * 7#1,L0"), "cron 0 0 * * 0#1,L0 and UTC croniter-7"),
        (Every("1h30m"), "every 5400000ms from 0ms"),
        (Every(90 * 60, offset="5m"), "every 5400000ms from 300000ms"),
        (Every("250ms"), "every 250ms from 0ms"),
        (At(datetime(2027, 1, 1, 9, tzinfo=UTC)), "at 2027-01-01T09:00:00.000Z"),
        (
            CronSets({0}, range(24), range(1, 32), range(1, 13), range(7), "Asia/Tokyo"),
            "cron 0 * * * * and Asia/Tokyo",
        ),
        (
            CronSets([30, 0], [9], [13], range(1, 13), [5], ZoneInfo("Asia/Tokyo")),
            "cron 0,30 9 13 * 5 and Asia/Tokyo",
        ),
    ],
)
def test_the_canonical_text_stays_what_it_was(schedule, text):
    """Other versions of this package compare it: a change here is a change of every job."""
    assert schedule.canonical() == text


@pytest.mark.parametrize(
    ("schedule", "shown", "said"),
    [
        (
            Cron("0 8 * * 1-5", "Europe/Athens"),
            "Cron('0 8 * * 1-5', 'Europe/Athens')",
            "cron 0 8 * * 1-5 (Europe/Athens)",
        ),
        (
            Cron("0 0 13 * 5", day="and"),
            "Cron('0 0 13 * 5', 'UTC', day='and')",
            "cron 0 0 13 * 5 (UTC)",
        ),
        (Every("90m", offset=60), "Every('1h30m', offset='1m')", "every 1h30m +1m"),
        (
            At(datetime(2027, 1, 1, tzinfo=UTC)),
            "At(2027-01-01T00:00:00.000Z)",
            "at 2027-01-01T00:00:00.000Z",
        ),
        (
            CronSets([0], [0], [13], range(1, 13), [5], UTC),
            "<CronSets 0 0 13 * 5 and UTC>",
            "cron 0 0 13 * 5 and UTC",
        ),
    ],
)
def test_a_schedule_shows_itself_as_a_person_would_write_it(schedule, shown, said):
    assert repr(schedule) == shown
    assert str(schedule) == said


def test_a_cron_and_sets_of_one_meaning_are_equal():
    sets = CronSets([0], [8], range(1, 32), range(1, 13), range(1, 6), "Europe/Athens")

    assert sets == Cron("0 8 * * 1-5", "Europe/Athens")
    assert len({sets, Cron("0 8 * * MON-FRI", "Europe/Athens")}) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Cron("0 0 * * *"), Cron("0 1 * * *")),
        (Cron("0 0 * * *"), Cron("0 0 * * *", "Europe/Athens")),
        (Cron("0 0 13 * 5"), Cron("0 0 13 * 5", day="and")),
        (Every("1h"), Every("1h", offset="1m")),
        (Every("1h"), Every("2h")),
        (At(NOW), At(NOW + timedelta(milliseconds=1))),
        (Every("1h"), Cron("0 * * * *")),
    ],
)
def test_schedules_of_different_meaning_differ_in_every_way(one, other):
    assert one != other
    assert one.canonical() != other.canonical()
    assert one.fingerprint(NOW) != other.fingerprint(NOW)


def test_a_fingerprint_is_short_and_the_same_each_time():
    first, second = (Cron("0 8 * * *", "Europe/Athens").fingerprint(NOW) for _ in range(2))

    assert first == second
    assert len(first) == 16


def test_a_fingerprint_does_not_change_from_month_to_month():
    """A new one would make the store forget when the schedule was first seen."""
    cron = Cron("0 8 * * *", "America/New_York")

    months = {cron.fingerprint(NOW + timedelta(days=days)) for days in range(0, 1200, 30)}

    assert len(months) == 1


def test_the_zone_data_of_this_machine_are_part_of_a_fingerprint():
    """G11: a difference can be noticed."""
    here = Cron("0 8 * * *", "America/New_York")
    elsewhere = Cron("0 8 * * *", "America/New_York")
    # A machine with another edition of the data, under the same name.
    object.__setattr__(elsewhere, "_zone", ZoneInfo("America/Chicago"))

    assert here.canonical() == elsewhere.canonical()
    assert here.fingerprint(NOW) != elsewhere.fingerprint(NOW)


def test_now_may_be_in_any_zone():
    cron = Cron("0 8 * * *", "Europe/Athens")

    assert cron.fingerprint(NOW) == cron.fingerprint(NOW.astimezone(timezone(timedelta(hours=9))))


def test_fingerprints_of_the_last_years_there_are_can_be_taken():
    cron = Cron("0 8 * * *", "Europe/Athens")

    assert cron.fingerprint(datetime.max.replace(tzinfo=UTC))
    assert cron.fingerprint(datetime.min.replace(tzinfo=UTC))
