"""The extended dialect, most of all where croniter itself goes wrong."""

from datetime import timedelta

import pytest

from anarchon.schedules import Cron
from tests.unit.schedules.clock_walk import at, forwards


def days(expression, start="2026-01-01T00:00:00Z", count=90, **options):
    begin = at(start)
    cron = Cron(expression, **options)
    return [f"{slot:%m-%d}" for slot in forwards(cron, begin, begin + timedelta(days=count))]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("0 0 L * *", ["01-31", "02-28", "03-31"]),
        ("0 0 15W * *", ["01-15", "02-16", "03-16"]),
        ("0 0 1W * *", ["01-01", "02-02", "03-02"]),
        ("0 0 * * 5#2", ["01-09", "02-13", "03-13"]),
        ("0 0 * * 7#1", ["01-04", "02-01", "03-01"]),
        ("0 0 * * 5#5", ["01-30"]),
        ("0 0 * * L5", ["01-30", "02-27", "03-27"]),
        ("0 0 1,15W,L * *", ["01-01", "01-15", "01-31", "02-01", "02-16", "02-28"]),
    ],
)
def test_a_special_day_is_found_in_each_month(expression, expected):
    assert days(expression)[: len(expected)] == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("0 0 1 * 5#2", ["01-01", "01-09", "02-01", "02-13"]),
        ("0 0 L * 5#2", ["01-09", "01-31", "02-13", "02-28"]),
        ("0 0 1 * L5", ["01-01", "01-30", "02-01", "02-27"]),
        ("0 0 15W * 1#1", ["01-05", "01-15", "02-02", "02-16"]),
    ],
)
def test_a_special_day_beside_another_day_field_matches_either(expression, expected):
    assert days(expression)[:4] == expected


def test_the_29th_of_february_or_the_last_friday_finds_both():
    assert days("0 0 29 2 L5", "2028-02-01T00:00:00Z") == ["02-25", "02-29"]


def test_a_special_day_and_another_day_field_can_both_be_asked_for():
    assert days("0 0 L * 6", day="and") == ["01-31", "02-28"]


def test_the_31st_weekday_of_a_short_month_is_the_one_nearest_its_end():
    assert days("0 0 31W 4 *", "2026-04-01T00:00:00Z", 30) == ["04-30"]


def test_a_fifth_weekday_that_february_has_once_in_28_years_is_found():
    cron = Cron("0 0 * 2 0#5")

    assert cron.next_after(at("2026-01-01T00:00:00Z")) == at("2032-02-29T00:00:00Z")
    assert cron.latest_at(at("2026-01-01T00:00:00Z")) == at("2004-02-29T00:00:00Z")


def test_a_special_day_follows_the_rule_for_clock_changes():
    cron = Cron("30 3 * * L0", "Europe/Athens")

    assert cron.next_after(at("2025-03-29T00:00:00Z")) == at("2025-03-30T01:00:00Z")
    assert cron.next_after(at("2025-10-25T00:00:00Z")) == at("2025-10-26T00:30:00Z")
