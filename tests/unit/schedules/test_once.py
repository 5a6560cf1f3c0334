from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from anarchon.errors import InvalidSchedule
from anarchon.schedules import At
from tests.unit.schedules.clock_walk import at

ATHENS = ZoneInfo("Europe/Athens")
TICK = timedelta(microseconds=1)


def test_the_one_slot_is_next_before_it_and_newest_from_it_on():
    slot = at("2027-01-01T09:00:00Z")
    once = At(slot)

    assert once.next_after(slot - TICK) == slot
    assert once.next_after(slot) is None
    assert once.latest_at(slot) == slot
    assert once.latest_at(slot - TICK) is None


def test_a_local_moment_is_the_same_slot_as_its_instant():
    assert At(datetime(2026, 7, 1, 9, tzinfo=ATHENS)) == At(at("2026-07-01T06:00:00Z"))


@pytest.mark.parametrize("fold", [0, 1])
def test_a_skipped_local_time_is_the_instant_of_the_jump(fold):
    skipped = datetime(2025, 3, 30, 3, 30, tzinfo=ATHENS, fold=fold)

    assert At(skipped).moment == at("2025-03-30T01:00:00Z")


def test_the_edges_of_a_skipped_hour_are_told_apart():
    first, last = datetime(2025, 3, 30, 3, tzinfo=ATHENS), datetime(2025, 3, 30, 4, tzinfo=ATHENS)

    assert At(first).moment == At(last).moment == at("2025-03-30T01:00:00Z")
    assert At(first - timedelta(milliseconds=1)).moment == at("2025-03-30T00:59:59.999Z")
    assert At(last + timedelta(milliseconds=1)).moment == at("2025-03-30T01:00:00.001Z")


def test_a_repeated_local_time_is_its_first_pass_unless_it_says_otherwise():
    repeated = datetime(2025, 10, 26, 3, 30, tzinfo=ATHENS)

    assert At(repeated).moment == at("2025-10-26T00:30:00Z")
    assert At(repeated.replace(fold=1)).moment == at("2025-10-26T01:30:00Z")


def test_a_naive_moment_is_refused_with_the_fix():
    with pytest.raises(InvalidSchedule) as refused:
        At(datetime(2027, 1, 1))  # noqa: DTZ001

    assert refused.value.option == "moment"
    assert "tzinfo=UTC" in str(refused.value.fix)


@pytest.mark.parametrize("moment", ["2027-01-01T00:00:00Z", 1.5, None, date(2027, 1, 1)])
def test_what_is_not_a_datetime_is_refused(moment):
    with pytest.raises(InvalidSchedule) as refused:
        At(moment)

    assert refused.value.option == "moment"


def test_a_moment_finer_than_milliseconds_is_refused():
    with pytest.raises(InvalidSchedule) as refused:
        At(datetime(2027, 1, 1, 0, 0, 0, 1, tzinfo=UTC))

    assert "milliseconds" in refused.value.problem
