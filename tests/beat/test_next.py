"""`next`: what comes, in the order it comes."""

import json
import re
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from anarchon import Every, Polled, Scheduler
from anarchon_beat import times
from tests.beat.canned import NOW
from tests.beat.conftest import Beat


class Stopped:
    """A clock that stands."""

    def wall(self) -> datetime:
        return NOW


@pytest.fixture
def scheduler(monkeypatch: pytest.MonkeyPatch) -> Scheduler:
    monkeypatch.setattr("anarchon_beat.next.SystemClock", Stopped)
    monkeypatch.setattr("anarchon.scheduler.scheduler.SystemClock", Stopped)
    scheduler = Scheduler("memory://")
    scheduler.every("sync", "40s", print, offset="10s")
    scheduler.cron("digest", "1 12 * * *", print)
    scheduler.at("migrate", NOW, print)
    return scheduler


def test_the_next_slots_of_all_jobs_come_in_their_order(
    beat: Beat, declared: Callable[[Scheduler], str], scheduler: Scheduler
) -> None:
    told = beat("-A", declared(scheduler), "next", "-n", "3")

    assert told.code == 0
    assert [re.split(r"\s{2,}", line) for line in told.out.splitlines()] == [
        ["NEXT", "LEFT", "JOB", "SCHEDULE"],
        ["Sun 2026-11-29 12:00:10 UTC", "in 10s", "sync", "every 40s +10s"],
        ["Sun 2026-11-29 12:00:50 UTC", "in 50s", "sync", "every 40s +10s"],
        ["Sun 2026-11-29 12:01:00 UTC", "in 1min", "digest", "cron 1 12 * * * (UTC)"],
    ]


def test_five_slots_are_shown_unless_asked_otherwise(
    beat: Beat, declared: Callable[[Scheduler], str], scheduler: Scheduler
) -> None:
    told = beat("-A", declared(scheduler), "next", "--job", "digest")

    assert told.out.count("digest") == 5
    assert "sync" not in told.out


def test_a_job_without_another_slot_is_no_mistake(
    beat: Beat, declared: Callable[[Scheduler], str], scheduler: Scheduler
) -> None:
    told = beat("-A", declared(scheduler), "next", "--job", "migrate")

    assert (told.code, told.out) == (0, "no slot is to come\n")


def test_the_json_says_its_version(
    beat: Beat, declared: Callable[[Scheduler], str], scheduler: Scheduler
) -> None:
    told = beat("-A", declared(scheduler), "next", "-n", "1", "--json")

    assert json.loads(told.out) == {
        "version": "anarchon.next/1",
        "namespace": "default",
        "now": "2026-11-29T12:00:00.000Z",
        "slots": [
            {"job": "sync", "slot": "2026-11-29T12:00:10.000Z", "schedule": "every 40s +10s"}
        ],
        "asked": [],
    }


class Whim(Polled):
    def is_due(self, newest: datetime, now: datetime, /) -> tuple[bool, None]:
        return False, None

    def canonical(self) -> str:
        return "whim"

    def __str__(self) -> str:
        return "a whim"


def test_a_job_whose_slots_nobody_knows_is_named_below_the_others(
    beat: Beat, declared: Callable[[Scheduler], str], scheduler: Scheduler
) -> None:
    scheduler.add("whim", Whim(), print)
    line = "whim is due when its schedule says so (a whim)"

    assert beat("-A", declared(scheduler), "next").out.splitlines()[-1] == line
    assert beat("-A", declared(scheduler), "next", "--job", "whim").out == f"{line}\n"
    assert "whim" not in beat("-A", declared(scheduler), "next", "--job", "sync").out
    told = beat("-A", declared(scheduler), "next", "--json").out
    assert json.loads(told)["asked"] == [{"job": "whim", "schedule": "a whim"}]


def test_many_slots_of_many_jobs_cost_what_is_shown(
    beat: Beat, declared: Callable[[Scheduler], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = Scheduler("memory://")
    for number in range(300):
        scheduler.every(f"job {number}", "20s", print)
    asked = Counter[str]()
    next_after = Every.next_after

    def counted(schedule: Every, moment: datetime, /) -> datetime | None:
        asked["times"] += 1
        return next_after(schedule, moment)

    monkeypatch.setattr(Every, "next_after", counted)

    told = beat("-A", declared(scheduler), "next", "-n", "2000")

    assert told.out.count("\n") == 2001
    assert asked["times"] <= 300 + 2000


def test_columns_are_as_wide_as_a_terminal_shows_them(
    beat: Beat, declared: Callable[[Scheduler], str]
) -> None:
    scheduler = Scheduler("memory://")
    scheduler.every("\u65e5\u672c", "1d", print)
    scheduler.every("four", "1d", print)

    lines = beat("-A", declared(scheduler), "next", "-n", "2").out.splitlines()

    assert lines[1].endswith("  four  every 1d")
    assert lines[2].endswith("  \u65e5\u672c  every 1d")


def test_the_entries_of_a_celery_app_are_shown(beat: Beat) -> None:
    told = beat("-A", "tests.beat.projects:app", "next", "-n", "2")

    assert told.out.count("every 1s") == 2


def test_entries_that_are_left_out_are_not_shown(beat: Beat) -> None:
    told = beat("-A", "tests.beat.projects:app", "--disable", "add", "next")

    assert told.code == 0
    assert "hourly" in told.out
    assert "every 1s" not in told.out


@pytest.mark.parametrize(
    ("length", "said"),
    [
        (timedelta(0), "0ms"),
        (timedelta(milliseconds=250), "250ms"),
        (timedelta(seconds=3), "3s"),
        (timedelta(seconds=3, milliseconds=240), "3.2s"),
        (timedelta(seconds=59, milliseconds=999), "59s"),
        (timedelta(minutes=2, seconds=5), "2min 5s"),
        (timedelta(hours=1), "1h"),
        (timedelta(days=1, minutes=10), "1d"),
        (timedelta(days=400), "1y 35d"),
        (timedelta(seconds=-70), "-1min 10s"),
    ],
)
def test_a_span_is_said_by_its_two_largest_units(length: timedelta, said: str) -> None:
    assert times.span(length) == said


def test_milliseconds_are_shown_where_there_are_any() -> None:
    assert times.absolute(NOW + timedelta(milliseconds=5)) == "Sun 2026-11-29 12:00:00.005 UTC"
