from datetime import UTC, datetime, timedelta, timezone

import pytest

from anarchon.errors import InvalidSchedule
from anarchon.schedules import Every
from tests.unit.schedules.clock_walk import at


def test_slots_lie_on_a_grid_from_the_epoch():
    every = Every("7s")

    assert every.next_after(at("2026-11-29T12:00:00Z")) == at("2026-11-29T12:00:07Z")
    assert every.latest_at(at("2026-11-29T12:00:06.999Z")) == at("2026-11-29T12:00:00Z")


def test_a_slot_is_its_own_newest_and_not_its_own_next():
    every = Every("10s")
    slot = at("2026-11-29T12:00:10Z")

    assert every.latest_at(slot) == slot
    assert every.next_after(slot) == at("2026-11-29T12:00:20Z")


def test_an_anchor_moves_the_grid_whether_past_or_future():
    monday_at_nine = datetime(2026, 1, 5, 9, tzinfo=timezone(timedelta(hours=2)))
    every = Every("7d", anchor=monday_at_nine)

    assert every.next_after(at("2025-12-01T00:00:00Z")) == at("2025-12-01T07:00:00Z")
    assert every == Every("1w", anchor=monday_at_nine + timedelta(weeks=100))


def test_an_offset_moves_the_grid_on_from_its_anchor():
    anchor = datetime(2026, 1, 1, 0, 10, tzinfo=UTC)

    every = Every("1h", anchor=anchor, offset="20m")

    assert every.next_after(at("2026-06-01T00:00:00Z")) == at("2026-06-01T00:30:00Z")
    assert every == Every("1h", offset="30m")


def test_milliseconds_do_not_drift_over_centuries():
    every = Every("7ms")
    far = at("2400-01-01T00:00:00Z")

    slot = every.next_after(far)

    assert slot is not None
    since = slot - datetime(1970, 1, 1, tzinfo=UTC)
    assert since % timedelta(milliseconds=7) == timedelta(0)


@pytest.mark.parametrize("interval", [10, 10.0, "10s", timedelta(seconds=10), "10000ms"])
def test_an_interval_may_be_written_in_several_ways(interval):
    assert Every(interval) == Every("10s")


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        ({"interval": 0}, "interval"),
        ({"interval": "-1s"}, "interval"),
        ({"interval": timedelta(seconds=-1)}, "interval"),
        ({"interval": True}, "interval"),
        ({"interval": None}, "interval"),
        ({"interval": "soon"}, "interval"),
        ({"interval": float("nan")}, "interval"),
        ({"interval": 1 / 3}, "interval"),
        ({"interval": timedelta(microseconds=1500)}, "interval"),
        ({"interval": "1h", "anchor": datetime(2026, 1, 1)}, "anchor"),  # noqa: DTZ001
        ({"interval": "1h", "anchor": "2026-01-01"}, "anchor"),
        ({"interval": "1h", "anchor": datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC)}, "anchor"),
        ({"interval": "1h", "offset": "1h"}, "offset"),
        ({"interval": "1h", "offset": "-1s"}, "offset"),
        ({"interval": "1h", "offset": 0.0005}, "offset"),
    ],
)
def test_what_has_no_exact_grid_is_refused_and_the_option_named(arguments, option):
    with pytest.raises(InvalidSchedule) as refused:
        Every(arguments.pop("interval"), **arguments)

    assert refused.value.option == option
    assert refused.value.fix


def test_an_offset_of_nothing_is_no_offset():
    assert Every("1h", offset=0) == Every("1h")


def test_an_interval_cannot_be_changed():
    with pytest.raises(AttributeError):
        Every("1h").interval = timedelta(1)  # type: ignore[misc]
