from datetime import UTC, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest

from anarchon.errors import InvalidSchedule
from anarchon.schedules import Cron
from anarchon.schedules import zones as zones_module


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("Athens", "Europe/Athens"),
        ("europe/athens", "Europe/Athens"),
        ("Europe/Atens", "Europe/Athens"),
        ("America/New York", "America/New_York"),
    ],
)
def test_an_unknown_zone_is_refused_with_the_names_near_it(name, near):
    with pytest.raises(InvalidSchedule) as refused:
        Cron("@daily", name)

    assert refused.value.option == "timezone"
    assert near in str(refused.value.fix)


@pytest.mark.parametrize(
    "name",
    [
        "local",
        "localtime",
        "Factory",
        "posixrules",
        "right/Europe/Athens",
        "posix/Europe/Athens",
        "+02:00",
        "UTC+2",
        "",
        "Europe",
        "../Europe/Athens",
        "/etc/localtime",
        "zone.tab",
        "Europe/Athens\0",
        "Ευρώπη/Αθήνα",
        "E" * 5000,
        None,
        5,
        timezone(timedelta(hours=2)),
    ],
)
def test_what_is_no_iana_name_is_refused(name):
    with pytest.raises(InvalidSchedule) as refused:
        Cron("@daily", name)

    assert refused.value.option == "timezone"
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize("utc", ["UTC", UTC, timezone(timedelta(0)), ZoneInfo("UTC")])
def test_utc_may_be_said_in_several_ways(utc):
    assert Cron("@daily", utc).canonical() == "cron 0 0 * * * and UTC"


class Pytz(tzinfo):
    zone = "Europe/Athens"

    def utcoffset(self, moment):
        raise AssertionError("a foreign zone is used by its name only")

    dst = tzname = utcoffset


@pytest.mark.parametrize("zone", [ZoneInfo("Europe/Athens"), Pytz()])
def test_a_zone_object_with_an_iana_name_is_taken_by_that_name(zone):
    assert Cron("@daily", zone) == Cron("@daily", "Europe/Athens")


def test_utc_needs_no_time_zone_database(monkeypatch):
    monkeypatch.setattr(zones_module, "ZoneInfo", None)

    assert Cron("@daily").timezone == "UTC"


def test_a_machine_without_a_database_is_told_what_to_install(monkeypatch):
    monkeypatch.setattr(zones_module, "available_timezones", set)

    with pytest.raises(InvalidSchedule) as refused:
        Cron("@daily", "Europe/Nowhere")

    assert "tzdata" in str(refused.value.fix)
