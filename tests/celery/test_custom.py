"""Schedules and entries that decide for themselves when they are due."""

import threading
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import asyncpg
import pytest
from celery import Celery
from celery.beat import ScheduleEntry
from celery.schedules import BaseSchedule, crontab, schedule

from anarchon import EventKind, Polled, RunState, Scheduler
from anarchon.store import Backend
from anarchon_celery import scheduler_for
from anarchon_celery.entries import load, read_entry
from anarchon_celery.schedules import slots_of
from anarchon_celery.scheduling import entries_of, scheduler_of
from tests.celery.runs import entry_of
from tests.celery.test_fleets import until_published
from tests.servers import ServersForTests
from tests.servers.postgres import PostgresServer
from tests.servers.redis import RedisServer

NEWEST = datetime(2026, 6, 1, 12, tzinfo=UTC)


def polled(app: Celery, value: Any) -> Polled:
    found = slots_of(app, value, relative=False, warn=lambda what: None)
    assert isinstance(found, Polled)
    return found


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


class Told(BaseSchedule):
    """Keeps what it is told, and answers what it was given."""

    def __init__(self, *answer: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.answer: Any = answer
        self.told: list[tuple[datetime, datetime]] = []

    def is_due(self, last_run_at: datetime) -> Any:
        self.told.append((last_run_at, self.now()))
        return self.answer


class AwayFromNoon(crontab):
    """A crontab that skips an hour."""

    def is_due(self, last_run_at: datetime) -> Any:
        due, left = super().is_due(last_run_at)
        return due and self.now().hour != 12, left


class Slower(schedule):
    """An interval that is twice as long as it says."""

    def remaining_estimate(self, last_run_at: datetime) -> timedelta:
        return super().remaining_estimate(last_run_at) + seconds(self.seconds)


class Duck:
    def __init__(self) -> None:
        self.told: list[datetime] = []

    def is_due(self, last_run_at: datetime) -> Any:
        self.told.append(last_run_at)
        return True, 5


# ---- what it is asked


def test_it_is_told_the_newest_slot_and_takes_the_stores_time_for_the_present(app: Celery) -> None:
    written = Told(False, 5)

    polled(app, written).is_due(NEWEST, NEWEST + seconds(7))

    assert written.told == [(NEWEST, NEWEST + seconds(7))]


def test_times_are_in_the_zone_of_the_app_as_in_celery(app: Celery) -> None:
    app.conf.update(timezone="Asia/Tokyo")
    written = Told(False, 5)

    polled(app, written).is_due(NEWEST, NEWEST)

    assert {str(moment.tzinfo) for moment in written.told[0]} == {"Asia/Tokyo"}


def test_a_clock_of_its_own_is_kept(app: Celery) -> None:
    own = NEWEST + timedelta(days=1)
    written = Told(False, 5, nowfun=lambda: own)

    polled(app, written).is_due(NEWEST, NEWEST)

    assert written.told == [(NEWEST, own)]


def test_a_class_with_a_clock_of_its_own_keeps_it(app: Celery) -> None:
    class Clocked(Told):
        def now(self) -> datetime:
            return NEWEST + timedelta(days=1)

    written = Clocked(False, 5)

    polled(app, written).is_due(NEWEST, NEWEST)

    assert written.told == [(NEWEST, NEWEST + timedelta(days=1))]


def test_what_it_holds_is_shared_with_whoever_else_has_it(app: Celery) -> None:
    written = Told(False, 5)
    found = polled(app, written)

    written.answer = (True, 9)

    assert found.is_due(NEWEST, NEWEST) == (True, seconds(9))


def test_it_has_the_app_as_in_celery(app: Celery) -> None:
    class Asks(Told):
        def is_due(self, last_run_at: datetime) -> Any:
            return self.app is app, 5

    assert polled(app, Asks()).is_due(NEWEST, NEWEST) == (True, seconds(5))


def test_an_object_of_any_class_will_do(app: Celery) -> None:
    duck = Duck()

    assert polled(app, duck).is_due(NEWEST, NEWEST) == (True, seconds(5))
    assert duck.told == [NEWEST]


@pytest.mark.parametrize(
    ("cls", "made"),
    [
        (AwayFromNoon, lambda cls, **clock: cls(minute="*/7", **clock)),
        (Slower, lambda cls, **clock: cls(timedelta(minutes=10), **clock)),
    ],
)
@pytest.mark.parametrize("zone", ["UTC", "Europe/Athens"])
def test_a_subclass_of_celerys_says_what_it_says_in_celery(
    app: Celery, cls: Any, made: Any, zone: str
) -> None:
    app.conf.update(timezone=zone)
    found = polled(app, made(cls))
    newest = NEWEST.astimezone(ZoneInfo(zone))

    for minutes in range(0, 180, 3):
        now = newest + timedelta(minutes=minutes)
        stock_due, stock_left = made(cls, nowfun=lambda now=now: now, app=app).is_due(newest)
        assert found.is_due(newest, now) == (stock_due, seconds(stock_left))


def test_an_entry_of_a_class_of_its_own_is_asked_with_the_newest_slot_for_its_last_run(
    app: Celery,
) -> None:
    class Extra(ScheduleEntry):
        def is_due(self) -> Any:
            due, left = super().is_due()
            return due and self.args == (1,), left

    written = Extra("job", "t", schedule=schedule(60), args=(1,), app=app)
    was = written.last_run_at
    app.conf.beat_schedule = {"job": written}

    found = entry_of(app).schedule

    assert isinstance(found, Polled)
    assert found.is_due(NEWEST, NEWEST + seconds(59)) == (False, seconds(1))
    assert found.is_due(NEWEST, NEWEST + seconds(61)) == (True, seconds(60))
    assert written.last_run_at == was


def test_what_was_read_of_such_an_entry_can_be_read_again(app: Celery) -> None:
    class Extra(ScheduleEntry):
        def is_due(self) -> Any:
            return True, 5

    app.conf.beat_schedule = {"job": Extra("job", "t", schedule=schedule(60), app=app)}
    load(app)
    first = entry_of(app)

    again, problems = read_entry(app, "job", {"task": "t", "schedule": first.written})

    assert problems == []
    assert again is not None
    assert again.schedule is first.schedule


def test_what_handlers_of_beat_init_change_leaves_its_schedule_as_it_is(app: Celery) -> None:
    class Extra(ScheduleEntry):
        def is_due(self) -> Any:
            return True, 5

    app.conf.beat_schedule = {
        "entry": Extra("entry", "t", schedule=schedule(60), app=app),
        "object": {"task": "t", "schedule": Told(True, 5)},
    }
    shown = entries_of(app)
    for entry in shown.sender.schedule.values():
        entry.options = {"headers": {"seen": True}}

    jobs = scheduler_of(shown, store="memory://").jobs

    assert {job.name for job in jobs if isinstance(job.schedule, Polled)} == {"entry", "object"}


# ---- what it answers


@pytest.mark.parametrize(
    ("answer", "meant"),
    [
        ((True, 5), (True, seconds(5))),
        ((False, 0.25), (False, seconds(0.25))),
        ((False, Decimal("1.5")), (False, seconds(1.5))),
        ((False, None), (False, None)),
        ((1, 5), (True, seconds(5))),
        ([False, 5], (False, seconds(5))),
        ((False, -5), (False, seconds(0))),
        ((False, float("inf")), (False, None)),
        ((False, 1e300), (False, None)),
        ((True, float("-inf")), (True, seconds(0))),
    ],
    ids=repr,
)
def test_an_answer_is_read_as_in_celery(app: Celery, answer: Any, meant: Any) -> None:
    written = Told()
    written.answer = answer

    assert polled(app, written).is_due(NEWEST, NEWEST) == meant


@pytest.mark.parametrize(
    "answer",
    [None, True, (True,), (True, 5, 6), (True, "5"), (True, float("nan")), (True, True), 5],
    ids=repr,
)
def test_what_is_no_answer_is_an_error(app: Celery, answer: Any) -> None:
    written = Told()
    written.answer = answer

    with pytest.raises((TypeError, ValueError), match=r"is_due\(\) returned"):
        polled(app, written).is_due(NEWEST, NEWEST)


# ---- what stands for it


class Holding:
    def __init__(self, **held: Any) -> None:
        vars(self).update(held)

    def is_due(self, last_run_at: datetime) -> Any:
        vars(self)["count"] = vars(self).get("count", 0) + 1
        return False, 5


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ({"a": 1}, {"a": 1}, True),
        ({"a": 1}, {"a": 2}, False),
        ({"a": 1}, {"b": 1}, False),
        ({"a": {"x", "y", "z"}}, {"a": {"z", "y", "x"}}, True),
        ({"a": [1, {"b": (2,)}]}, {"a": [1, {"b": (3,)}]}, False),
        ({"a": object()}, {"a": object()}, True),
        ({"a": lambda: 1}, {"a": lambda: 2}, True),
        ({"made": NEWEST}, {"made": NEWEST + seconds(1)}, True),
        ({"app": 1, "nowfun": 2}, {}, True),
    ],
)
def test_its_class_and_the_plain_values_it_holds_stand_for_it(
    app: Celery, one: Any, other: Any, alike: bool
) -> None:
    first, second = polled(app, Holding(**one)), polled(app, Holding(**other))

    assert (first.fingerprint(NEWEST) == second.fingerprint(NEWEST)) is alike


def test_another_class_is_another_edition(app: Celery) -> None:
    assert polled(app, Duck()).fingerprint(NEWEST) != polled(app, Told()).fingerprint(NEWEST)


def test_what_it_counts_meanwhile_makes_no_other_edition_of_it(app: Celery) -> None:
    found = polled(app, Holding(count=1))
    before = found.fingerprint(NEWEST)

    found.is_due(NEWEST, NEWEST)

    assert found.fingerprint(NEWEST) == before


def test_it_says_what_it_is(app: Celery) -> None:
    assert str(polled(app, Duck())) == f"asked: {__name__}.Duck"


# ---- several instances


class EachSecond(BaseSchedule):
    """Due once in every second of the clock, by a rule that names no slots."""

    def is_due(self, last_run_at: datetime) -> Any:
        now = self.now()
        left = 1 - now.microsecond / 1_000_000
        return int(now.timestamp()) > int(last_run_at.timestamp()), left


@pytest.fixture(params=["sqlite", "redis-8.0", "postgres-18"])
async def store(request: pytest.FixtureRequest, servers: ServersForTests, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'anarchon.db'}"
    server = servers.get(request.param)
    if isinstance(server, RedisServer):
        return server.url(database=11)
    assert isinstance(server, PostgresServer)
    admin = await asyncpg.connect(server.url())
    try:
        await admin.execute("drop database if exists celery_custom")
        await admin.execute("create database celery_custom")
    finally:
        await admin.close()
    return server.url("celery_custom")


async def test_three_instances_run_every_due_moment_once(app: Celery, store: str | Backend) -> None:
    app.conf.beat_schedule = {
        "job": {
            "task": "proj.note",
            "schedule": EachSecond(),
            "options": {"anarchon": {"jitter": "50ms"}},
        }
    }
    options: Any = {"store": store, "namespace": f"custom-{id(app)}"}

    fleet = [scheduler_for(app, name=str(n), **options) for n in range(3)]
    await until_published(fleet, 6)

    slots = sorted(attempt.slot for attempt in await fleet[0].history("job"))
    due_moments = [int(slot.timestamp()) for slot in slots]
    assert len(due_moments) == len(set(due_moments)) >= 6
    assert all(a.state is RunState.PUBLISHED for a in await fleet[0].history("job"))


async def test_an_object_that_raises_or_hangs_stops_no_other_entry(app: Celery) -> None:
    ends = threading.Event()

    class Raising(BaseSchedule):
        def is_due(self, last_run_at: datetime) -> Any:
            raise RuntimeError("no")

    class Hanging(BaseSchedule):
        def is_due(self, last_run_at: datetime) -> Any:
            ends.wait(30)
            return False, 5

    app.conf.beat_schedule = {
        "raises": {"task": "proj.note", "schedule": Raising()},
        "hangs": {"task": "proj.note", "schedule": Hanging()},
        "good": {"task": "proj.note", "schedule": 1},
        "asked": {"task": "proj.note", "schedule": EachSecond()},
    }
    told: list[Any] = []
    scheduler: Scheduler = scheduler_for(app, store="memory://")
    scheduler.on(EventKind.ERROR, told.append)

    try:
        await until_published([scheduler], 5)
    finally:
        ends.set()

    (error,) = told
    assert error.job == "raises"
    assert {a.job for a in await scheduler.history()} == {"good", "asked"}
