"""Celery's solar events, as slots."""

import itertools
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from celery import Celery
from celery.schedules import solar

from anarchon import ConfigurationError, MissingExtra, Schedule
from anarchon_celery.schedules import slots_of
from anarchon_celery.solar import Solar

pytest.importorskip("ephem")

ATHENS = 37.98, 23.73
TROMSO = 69.65, 18.96
QUITO = -0.18, -78.47
FIJI = -17.7, 178.1
EVENTS = (
    *("dawn_astronomical", "dawn_nautical", "dawn_civil", "sunrise", "solar_noon"),
    *("sunset", "dusk_civil", "dusk_nautical", "dusk_astronomical"),
)
SECOND = timedelta(seconds=1)


def translated(app: Celery, value: Any) -> Schedule:
    return slots_of(app, value, relative=False, warn=lambda what: None)


def slots(found: Schedule, first: datetime, days: float) -> list[datetime]:
    """Return the slots after a moment, as ``next_after`` has them."""
    listed: list[datetime] = []
    slot = found.next_after(first)
    while slot is not None and slot <= first + timedelta(days=days):
        listed.append(slot)
        slot = found.next_after(slot)
    return listed


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("place", [ATHENS, QUITO, FIJI, (59.9, 10.7)])
def test_each_event_is_where_celery_finds_it(
    app: Celery, event: Any, place: tuple[float, float]
) -> None:
    """To the second: Celery's own answer differs by as much with the moment it is asked from."""
    now = utc("2026-08-25T12:00")
    asked = solar(event, *place, nowfun=lambda: now, app=app)

    for slot in slots(translated(app, solar(event, *place)), now, 14):
        after = slot - timedelta(hours=6)
        stock = now + asked.remaining_estimate(after)
        assert abs(stock - slot) <= SECOND


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("place", [ATHENS, TROMSO, FIJI, (66.6, -150.0), (-88.0, 0.0)])
def test_both_ways_to_ask_see_the_same_slots(
    app: Celery, event: Any, place: tuple[float, float]
) -> None:
    found = translated(app, solar(event, *place))
    first = utc("2026-03-01")
    forward = slots(found, first, 60)

    backward = []
    slot = found.latest_at(first + timedelta(days=60))
    while slot is not None and slot > first:
        backward.append(slot)
        slot = found.latest_at(slot - timedelta(milliseconds=1))

    assert backward[::-1] == forward
    assert forward == sorted(set(forward))
    assert all(slot.microsecond == 0 for slot in forward)
    assert all(found.latest_at(slot) == slot for slot in forward)


def test_a_slot_does_not_depend_on_the_moment_asked_from(app: Celery) -> None:
    found = translated(app, solar("sunset", *ATHENS))
    slot = found.next_after(utc("2026-06-01T12:00"))
    assert slot is not None

    for minutes in range(1, 23 * 60, 7):
        assert found.next_after(slot - timedelta(minutes=minutes)) == slot
        assert found.latest_at(slot + timedelta(minutes=minutes)) == slot


def test_days_without_the_event_have_no_slot(app: Celery) -> None:
    found = slots(translated(app, solar("sunrise", *TROMSO)), utc("2026-01-01"), 365)

    gaps = [(b - a).days for a, b in itertools.pairwise(found)]
    assert len(found) == 249
    assert sorted(gap for gap in gaps if gap > 1) == [69]  # the midnight sun


def test_an_event_comes_once_an_evening_also_where_that_is_another_day_in_utc(
    app: Celery,
) -> None:
    found = slots(translated(app, solar("sunset", *FIJI)), utc("2026-01-01T12:00"), 365)

    assert len(found) == 365


def test_an_evening_that_moves_back_over_midnight_loses_no_event(app: Celery) -> None:
    """Two of one local day, of which a search from its start finds the first."""
    found = translated(app, solar("dusk_nautical", 57.3, 0.0))

    assert slots(found, utc("2026-07-19T12:00"), 2) == [
        utc("2026-07-20T00:00:44"),
        utc("2026-07-20T23:40:06"),
    ]


def test_an_event_that_never_comes_has_no_slot(app: Celery) -> None:
    never = solar("sunset", *ATHENS)
    never.cal.horizon = "80"  # type: ignore[attr-defined]  # the sun of Athens is never so high

    found = translated(app, never)

    assert found.next_after(utc("2026-01-01")) is None
    assert found.latest_at(utc("2026-01-01")) is None


def test_the_last_years_of_the_calendar_are_no_trouble(app: Celery) -> None:
    found = translated(app, solar("sunset", *ATHENS))

    assert found.next_after(datetime.max.replace(tzinfo=UTC)) is None
    assert found.latest_at(datetime.min.replace(tzinfo=UTC)) is None


def test_a_naive_moment_is_refused(app: Celery) -> None:
    with pytest.raises(ValueError, match="time zone"):
        translated(app, solar("sunset", *ATHENS)).next_after(datetime(2026, 1, 1))  # noqa: DTZ001


@pytest.mark.parametrize(
    "other",
    [solar("sunrise", *ATHENS), solar("sunset", 37.99, 23.73), solar("sunset", 37.98, 23.74)],
    ids=repr,
)
def test_equal_meaning_has_an_equal_fingerprint_and_no_other(app: Celery, other: Any) -> None:
    now = utc("2026-01-01")
    one = translated(app, solar("sunset", *ATHENS)).fingerprint(now)

    assert translated(app, solar("sunset", *ATHENS)).fingerprint(now) == one
    assert translated(app, other).fingerprint(now) != one


def test_reading_an_event_leaves_no_trace_in_it(app: Celery) -> None:
    written = solar("sunset", *ATHENS)
    before = dict(vars(written))

    slots(translated(app, written), utc("2026-01-01"), 3)

    assert vars(written) == before


def test_without_ephem_it_says_what_to_type(app: Celery, monkeypatch: pytest.MonkeyPatch) -> None:
    written = solar("sunset", *ATHENS)
    monkeypatch.setitem(sys.modules, "ephem", None)

    with pytest.raises(MissingExtra) as caught:
        translated(app, written)

    assert isinstance(caught.value, ConfigurationError)
    assert caught.value.option == "schedule"
    assert "pip install 'celery[solar]'" in str(caught.value)


def test_it_says_what_it_is(app: Celery) -> None:
    assert str(Solar.of(solar("sunset", *ATHENS))) == "sunset at 37.98, 23.73"
