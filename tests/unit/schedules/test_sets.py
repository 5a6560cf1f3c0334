import copy
import pickle
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from anarchon.errors import InvalidSchedule
from anarchon.schedules import Cron, CronSets
from tests.unit.schedules.clock_walk import at

ANY = {
    "minutes": range(60),
    "hours": range(24),
    "days": range(1, 32),
    "months": range(1, 13),
    "weekdays": range(7),
    "zone": "UTC",
}


def sets(**changes):
    return CronSets(**(ANY | changes))


def test_days_and_weekdays_must_both_match():
    friday_13th = sets(minutes={0}, hours={0}, days={13}, weekdays={5})

    assert friday_13th.next_after(at("2026-01-01T00:00:00Z")) == at("2026-02-13T00:00:00Z")


def test_either_may_match_when_asked_for():
    either = sets(minutes={0}, hours={0}, days={13}, weekdays={5}, day="or")

    assert either == Cron("0 0 13 * 5")


def test_sets_follow_the_rule_for_clock_changes():
    zone = ZoneInfo("America/New_York")
    named, hourly = sets(minutes={30}, hours={1}, zone=zone), sets(minutes={30}, zone=zone)

    first_pass = at("2025-11-02T05:30:00Z")
    assert named.next_after(first_pass) == at("2025-11-03T06:30:00Z")
    assert hourly.next_after(first_pass) == at("2025-11-02T06:30:00Z")


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"minutes": []}, "minute"),
        ({"minutes": {60}}, "minute"),
        ({"minutes": {0.5}}, "minute"),
        ({"minutes": {True}}, "minute"),
        ({"hours": {24}}, "hour"),
        ({"days": {0}}, "day of month"),
        ({"months": {13}}, "month"),
        ({"months": {"JAN"}}, "month"),
        ({"weekdays": {7}}, "weekday"),
    ],
)
def test_a_value_a_field_cannot_hold_is_refused_and_the_field_named(wrong, named):
    with pytest.raises(InvalidSchedule) as refused:
        sets(**wrong)

    assert named in refused.value.problem


def test_sets_that_never_happen_are_refused():
    with pytest.raises(InvalidSchedule, match="never happens"):
        sets(days={31}, months={4})


def test_an_unknown_zone_is_refused():
    with pytest.raises(InvalidSchedule) as refused:
        sets(zone="Mars/Olympus")

    assert refused.value.option == "timezone"


@pytest.mark.parametrize("schedule", [sets(), Cron("30 2 15W * *", "Europe/Athens")], ids=str)
def test_a_schedule_survives_copying_and_pickling(schedule):
    moment = datetime(2026, 1, 1, tzinfo=UTC)

    for twin in (copy.deepcopy(schedule), pickle.loads(pickle.dumps(schedule))):
        assert twin == schedule
        assert twin.next_after(moment) == schedule.next_after(moment)


def test_a_schedule_cannot_be_changed():
    with pytest.raises(AttributeError):
        sets().timezone = "Europe/Athens"


def test_crons_of_one_meaning_share_their_calendar():
    """Ten thousand jobs on one schedule must not hold ten thousand calendars."""
    crons = [Cron("*/5 * * * *", zone) for zone in ("UTC", "Europe/Athens", "Asia/Tokyo")]

    assert len({id(cron._calendar) for cron in crons}) == 1
