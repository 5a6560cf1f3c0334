"""Celery's schedule objects, translated."""

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from celery import Celery
from celery.schedules import BaseSchedule, crontab, schedule

from anarchon import ConfigurationError, Cron, CronSets, Every, Polled, Schedule
from anarchon_celery.schedules import slots_of


def translated(
    app: Celery, value: Any, *, relative: bool = False, timezone: Any = None
) -> Schedule:
    return slots_of(app, value, relative=relative, warn=lambda what: None, timezone=timezone)


def warnings_of(app: Celery, value: Any, *, relative: bool = False) -> list[str]:
    warnings: list[str] = []
    slots_of(app, value, relative=relative, warn=warnings.append)
    return warnings


def slots(found: Schedule, after: datetime, count: int) -> list[datetime]:
    listed = []
    for _ in range(count):
        slot = found.next_after(after)
        assert slot is not None
        listed.append(slot)
        after = slot
    return listed


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


class Moody(crontab):
    def is_due(self, last_run_at: datetime) -> Any:
        return super().is_due(last_run_at)


class Stretching(schedule):
    def remaining_estimate(self, last_run_at: datetime) -> timedelta:
        return timedelta(seconds=1)


class Own(BaseSchedule):
    def is_due(self, last_run_at: datetime) -> Any:
        return False, 60


class Mute(BaseSchedule):
    pass


class Duck:
    def is_due(self, last_run_at: datetime) -> tuple[bool, float]:
        return True, 1.0


# ---- crontab


def a_crontab(dice: random.Random) -> dict[str, Any]:
    """Return the arguments of some crontab that happens at least once a year."""

    def some(low: int, high: int) -> str | set[int]:
        kind = dice.randrange(4)
        if kind == 0:
            return "*"
        if kind == 1:
            return f"*/{dice.randint(1, max(2, (high - low) // 2))}"
        return set(dice.sample(range(low, high + 1), dice.randint(1, 4)))

    return {
        "minute": some(0, 59),
        "hour": some(0, 23),
        "day_of_month": "*" if dice.random() < 0.5 else set(dice.sample(range(1, 29), 4)),
        "month_of_year": some(1, 12),
        "day_of_week": "*" if dice.random() < 0.5 else set(dice.sample(range(7), 3)),
    }


def stock_slots(app: Celery, fields: dict[str, Any], after: datetime, count: int) -> list[datetime]:
    """Return what a crontab of Celery's own answers, asked for one run after the other."""
    listed = []
    for _ in range(count):
        now = after
        asked = crontab(**fields, nowfun=lambda now=now: now, app=app)
        # in the zone it came in: Celery 5.6 is hours off when told the last run in another
        after = now + asked.remaining_estimate(now)
        listed.append(after)
    return listed


@pytest.mark.parametrize("seed", range(12))
def test_a_crontab_in_utc_has_the_slots_it_has_in_celery(app: Celery, seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(25):
        fields = a_crontab(dice)
        after = utc("2026-01-01") + timedelta(seconds=dice.randrange(3 * 365 * 86_400))

        ours = slots(translated(app, crontab(**fields)), after, 4)

        assert ours == stock_slots(app, fields, after, 4), (fields, after)


@pytest.mark.parametrize("zone", ["Europe/Athens", "America/New_York", "Asia/Kathmandu"])
def test_away_from_clock_changes_a_crontab_in_a_zone_has_the_slots_it_has_in_celery(
    app: Celery, zone: str
) -> None:
    app.conf.update(timezone=zone)
    dice = random.Random(zone)
    for _ in range(15):
        fields = a_crontab(dice) | {"month_of_year": "*", "day_of_month": "*"}
        after = utc("2026-06-02") + timedelta(seconds=dice.randrange(20 * 86_400))

        ours = slots(translated(app, crontab(**fields)), after, 3)

        local = stock_slots(app, fields, after.astimezone(ZoneInfo(zone)), 3)
        assert ours == local, (fields, after)


def test_day_of_week_and_day_of_month_must_both_match(app: Celery) -> None:
    friday_13 = crontab(0, 0, day_of_week="fri", day_of_month=13)

    found = slots(translated(app, friday_13), utc("2026-01-01"), 3)

    assert found == [utc("2026-02-13"), utc("2026-03-13"), utc("2026-11-13")]


@pytest.mark.parametrize(
    ("fields", "after", "expected"),
    [
        # 02:30 is skipped on 8 March: it runs at the instant of the jump
        (
            {"minute": 30, "hour": 2},
            "2026-03-07T08:00",
            ["2026-03-08T07:00", "2026-03-09T06:30"],
        ),
        # 01:30 comes twice on 1 November: it runs on the first pass
        (
            {"minute": 30, "hour": 1},
            "2026-10-31T12:00",
            ["2026-11-01T05:30", "2026-11-02T06:30"],
        ),
        # an hourly one loses no hour
        (
            {"minute": 0},
            "2026-11-01T04:30",
            ["2026-11-01T05:00", "2026-11-01T06:00", "2026-11-01T07:00"],
        ),
    ],
)
def test_a_crontab_follows_the_house_rule_when_the_clocks_change(
    app: Celery, fields: dict[str, Any], after: str, expected: list[str]
) -> None:
    app.conf.update(timezone="America/New_York")

    found = slots(translated(app, crontab(**fields)), utc(after), len(expected))

    assert found == [utc(moment) for moment in expected]


class InItsZone(crontab):
    """A crontab that carries its zone, as some projects write it."""

    def __init__(self, zone: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        vars(self)["tz"] = ZoneInfo(zone)


def test_a_crontab_with_a_zone_of_its_own_is_read_in_it(app: Celery) -> None:
    app.conf.update(timezone="Europe/Athens")

    found = translated(app, InItsZone("Asia/Tokyo", 0, 9))

    assert found.next_after(utc("2026-06-01")) == utc("2026-06-02")


def test_the_crontab_of_django_celery_beat_is_read_in_its_zone(app: Celery) -> None:
    def is_due(self: Any, last_run_at: datetime) -> Any:
        raise AssertionError("its answer depends on when it is asked")

    cls = type("TzAwareCrontab", (InItsZone,), {"is_due": is_due})
    cls.__module__ = "django_celery_beat.tzcrontab"

    found = translated(app, cls("Asia/Tokyo", 0, 9, nowfun=lambda: None))

    assert found.next_after(utc("2026-06-01")) == utc("2026-06-02")


def test_a_crontab_is_read_in_utc_where_no_zone_is_set(app: Celery) -> None:
    assert translated(app, crontab(0, 9)).canonical() == "cron 0 9 * * * and UTC"


def test_reading_a_crontab_leaves_no_trace_in_it(app: Celery) -> None:
    app.conf.update(timezone="Europe/Athens")
    written = crontab(0, 9)
    before = dict(vars(written))

    translated(app, written)

    assert vars(written) == before


def test_a_crontab_in_the_zone_of_the_machine_is_refused(app: Celery) -> None:
    app.conf.enable_utc = False

    with pytest.raises(ConfigurationError) as caught:
        translated(app, crontab(0, 9))

    assert caught.value.option == "schedule"
    assert "set timezone" in str(caught.value)


def test_an_interval_needs_no_zone(app: Celery) -> None:
    app.conf.enable_utc = False

    assert translated(app, 30) == Every("30s")


def test_an_unknown_zone_is_refused_with_the_nearest_names(app: Celery) -> None:
    app.conf.update(timezone="Europe/Athen")

    with pytest.raises(ConfigurationError) as caught:
        translated(app, crontab(0, 9))

    assert "Europe/Athens" in str(caught.value)


def a_clock() -> datetime:
    return utc("2026-06-01")


# ---- intervals


@pytest.mark.parametrize(
    "written",
    [90, 90.0, timedelta(seconds=90), schedule(90), schedule(timedelta(minutes=1.5))],
)
def test_an_interval_lies_on_the_grid_from_the_epoch(app: Celery, written: Any) -> None:
    found = translated(app, written)

    assert found.next_after(utc("2026-06-01T12:00:01")) == utc("2026-06-01T12:01:30")


def test_an_interval_may_be_less_than_a_second(app: Celery) -> None:
    assert warnings_of(app, 0.25) == []
    assert slots(translated(app, 0.25), utc("2026-06-01"), 2) == [
        utc("2026-06-01T00:00:00.250"),
        utc("2026-06-01T00:00:00.500"),
    ]


def test_an_interval_is_rounded_to_whole_milliseconds_with_a_warning(app: Celery) -> None:
    assert translated(app, 1 / 3) == Every("333ms")
    assert translated(app, timedelta(microseconds=1500)) == Every("2ms")
    (warning,) = warnings_of(app, 1 / 3)
    assert "333ms" in warning


def test_relative_is_ignored_and_said_where_it_would_have_meant_local_midnight(app: Celery) -> None:
    app.conf.update(timezone="Europe/Athens")

    assert translated(app, timedelta(days=1), relative=True) == Every("1d")
    assert len(warnings_of(app, timedelta(days=1), relative=True)) == 1
    assert len(warnings_of(app, schedule(timedelta(days=1), relative=True))) == 1
    assert warnings_of(app, timedelta(hours=1), relative=True) == []


@pytest.mark.parametrize(
    ("interval", "said"),
    [
        (timedelta(seconds=7), ""),
        (timedelta(minutes=5), ""),
        (timedelta(seconds=90), "to each 1m"),
        (timedelta(minutes=90), "to each 1h"),
        (timedelta(hours=36), "to each 1d"),
    ],
)
def test_where_relative_would_have_meant_another_interval_it_is_said(
    app: Celery, interval: timedelta, said: str
) -> None:
    assert translated(app, interval, relative=True) == Every(interval)
    assert [said in warning for warning in warnings_of(app, interval, relative=True)] == (
        [True] if said else []
    )


def test_relative_hours_are_said_to_be_other_ones_where_a_zone_is_off_the_hour(
    app: Celery,
) -> None:
    app.conf.update(timezone="Asia/Kathmandu")

    (warning,) = warnings_of(app, timedelta(hours=1), relative=True)

    assert "whole hours of UTC" in warning


def test_relative_in_utc_means_what_the_grid_does_anyway(app: Celery) -> None:
    assert warnings_of(app, timedelta(days=1), relative=True) == []


@pytest.mark.parametrize("written", [crontab(0, 9, nowfun=a_clock), schedule(5, nowfun=a_clock)])
def test_a_clock_of_the_schedules_own_is_ignored_and_said(app: Celery, written: Any) -> None:
    (warning,) = warnings_of(app, written)
    assert "nowfun" in warning


# ---- text, and schedules of ours


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("10s", Every("10s")),
        ("1h30m", Every("1h30m")),
        (" 1h 30m ", Every("1h30m")),
        ("0 8 * * *", Cron("0 8 * * *")),
        ("0 8 * * * 30", Cron("0 8 * * * 30")),
        ("0 8 * * 7", Cron("0 8 * * 0")),
        ("@daily", Cron("0 0 * * *")),
    ],
)
def test_a_text_is_a_duration_or_a_cron(app: Celery, text: str, meant: Schedule) -> None:
    assert translated(app, text).canonical() == meant.canonical()


def test_the_days_of_a_text_match_as_those_of_cron_and_not_as_a_crontabs(app: Celery) -> None:
    """Either the 13th, or a Friday."""
    found = slots(translated(app, "0 0 13 * 5"), utc("2026-02-01"), 3)

    assert found == [utc("2026-02-06"), utc("2026-02-13"), utc("2026-02-20")]


def test_a_text_of_cron_is_read_in_the_zone_of_the_app(app: Celery) -> None:
    app.conf.update(timezone="Asia/Tokyo")

    assert translated(app, "0 9 * * *").next_after(utc("2026-06-01")) == utc("2026-06-02")


@pytest.mark.parametrize(
    "written",
    [Every("7d", offset="1h"), Cron("0 8 * * *", "Asia/Tokyo"), CronSets.__new__(CronSets)],
)
def test_a_schedule_of_ours_is_taken_as_it_is(app: Celery, written: Schedule) -> None:
    assert translated(app, written) is written


# ---- the zone of one entry


@pytest.mark.parametrize("written", [crontab(0, 9), "0 9 * * *"], ids=repr)
@pytest.mark.parametrize("zone", ["Asia/Tokyo", ZoneInfo("Asia/Tokyo")], ids=repr)
def test_an_entry_may_have_a_zone_of_its_own(app: Celery, written: Any, zone: Any) -> None:
    app.conf.update(timezone="Europe/Athens")

    found = translated(app, written, timezone=zone)

    assert found.next_after(utc("2026-06-01")) == utc("2026-06-02")


def test_the_zone_of_an_entry_wins_over_its_schedules(app: Celery) -> None:
    found = translated(app, InItsZone("Europe/Athens", 0, 9), timezone="Asia/Tokyo")

    assert found.next_after(utc("2026-06-01")) == utc("2026-06-02")


def test_a_zone_of_the_entry_stands_for_that_of_the_machine(app: Celery) -> None:
    app.conf.enable_utc = False

    assert translated(app, crontab(0, 9), timezone="UTC").canonical() == "cron 0 9 * * * and UTC"


@pytest.mark.parametrize("written", [5, "5m", Moody(0, 9)], ids=repr)
def test_what_has_no_zone_refuses_one(app: Celery, written: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        translated(app, written, timezone="Asia/Tokyo")

    assert caught.value.option == "timezone"


# ---- what is asked


@pytest.mark.parametrize(
    "written",
    [Moody(0, 9), Stretching(5), Own(), Duck()],
    ids=lambda schedule: type(schedule).__name__,
)
def test_what_decides_for_itself_is_asked(app: Celery, written: Any) -> None:
    assert isinstance(translated(app, written), Polled)


def test_an_asked_crontab_in_the_zone_of_the_machine_is_refused_as_well(app: Celery) -> None:
    app.conf.enable_utc = False

    with pytest.raises(ConfigurationError, match="set timezone"):
        translated(app, Moody(0, 9))


# ---- what is no schedule


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (None, "there is no schedule"),
        ("5", "is not a duration"),
        ("0 8 * *", "fields"),
        ("@reboot", "@reboot"),
        ("0 8 30 2 *", "never happens"),
        (Decimal(5), "write float(5)"),
        (True, "number of seconds"),
        (0, "more than zero"),
        (-5, "more than zero"),
        (timedelta(0), "more than zero"),
        (schedule(0), "more than zero"),
        (schedule(None), "None"),
        (0.0001, "one millisecond"),
        (float("nan"), "number of seconds"),
        (float("inf"), "number of seconds"),
        (1e300, "number of seconds"),
        pytest.param(10**400, "number of seconds", id="10**400"),
        pytest.param(10**5000, "number of seconds", id="10**5000"),
        (timedelta.max, "too long"),
        (timedelta.min, "more than zero"),
        (Mute(), "Mute does not say when it is due"),
        (Own, "the class Own is no schedule"),
        (object(), "object is no schedule"),
    ],
)
def test_what_is_no_schedule_is_refused_with_what_to_write(
    app: Celery, written: Any, said: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        translated(app, written)

    assert caught.value.option == "schedule"
    assert caught.value.fix
    assert said in str(caught.value)


def test_a_crontab_that_never_happens_is_refused(app: Celery) -> None:
    never = crontab(0, 0, day_of_month=29, month_of_year=2)
    never.day_of_month = {30}  # type: ignore[attr-defined]  # what 5.6 lets one write

    with pytest.raises(ConfigurationError) as caught:
        translated(app, never)

    assert "never happens" in str(caught.value)
