"""How long the next slot of a cron takes, beside the libraries people use for it."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from celery.schedules import crontab
from croniter import croniter
from cronsim import CronSim

from anarchon.schedules import Cron
from benchmarks.stores import Stores
from benchmarks.table import Peer, Row
from benchmarks.units import micros

_GOAL = 10e-6
_STEPS, _ROUNDS = 500, 7
_START, _END = datetime(2026, 1, 1, tzinfo=UTC), datetime(2046, 1, 1, tzinfo=UTC)
Walk = Callable[[], object]


@dataclass(frozen=True)
class _Shape:
    expression: str
    zone: str = "UTC"

    def __str__(self) -> str:
        return f"{self.expression} ({self.zone})"


_SHAPES = (
    _Shape("* * * * *"),
    _Shape("*/5 * * * *"),
    _Shape("15 3 * * *"),
    _Shape("0 8 * * 1-5", "Europe/Athens"),
    _Shape("30 */2 * * *", "Europe/Athens"),
    _Shape("0 0 1 1,7 *", "America/New_York"),
    _Shape("0 0 29 2 *"),
)


def measure(_: Stores) -> Iterator[Row]:
    for shape in _SHAPES:
        steps = _steps_of(shape)
        makers = (_ours, _croniter, _cronsim, _celery)
        ours, *peers = _medians(*(make(shape, steps) for make in makers), steps=steps)
        names = ("croniter, naive", "cronsim", "celery.crontab")
        yield _row(f"cron: next slot, {shape}", ours, names, peers)
    shape = _SHAPES[3]
    random.seed(1)
    moments = [_START + timedelta(minutes=random.randrange(5_000_000)) for _ in range(_STEPS)]
    ours, peer = _medians(_jump(shape, moments), _croniter_jump(shape, moments), steps=_STEPS)
    figure = f"cron: next slot, {shape}, after any moment of 10 years"
    yield _row(figure, ours, ("croniter, naive",), [peer])


def _row(figure: str, ours: float, names: tuple[str, ...], peers: list[float]) -> Row:
    against = [
        Peer(name, micros(peer), ours / peer) for name, peer in zip(names, peers, strict=True)
    ]
    return Row(figure, micros(ours), against, f"< {micros(_GOAL)}", ours < _GOAL)


def _medians(*walks: Walk, steps: int) -> list[float]:
    """Return the time of one step of each; they take turns, so that all meet the same machine."""
    times: list[list[float]] = [[] for _ in walks]
    repeats = -(-_STEPS // steps)
    for _ in range(_ROUNDS):
        for walk, taken in zip(walks, times, strict=True):
            began = time.perf_counter()
            for _ in range(repeats):
                walk()
            taken.append((time.perf_counter() - began) / (steps * repeats))
    return [statistics.median(taken) for taken in times]


def _steps_of(shape: _Shape) -> int:
    """Return how many slots to walk: a yearly cron is not asked about the year 2500."""
    schedule = Cron(shape.expression, shape.zone)
    moment, steps = schedule.next_after(_START), 0
    while moment is not None and moment < _END and steps < _STEPS:
        moment, steps = schedule.next_after(moment), steps + 1
    return steps


def _ours(shape: _Shape, steps: int) -> Walk:
    schedule = Cron(shape.expression, shape.zone)

    def walk() -> None:
        moment: datetime | None = _START
        for _ in range(steps):
            assert moment is not None
            moment = schedule.next_after(moment)

    return walk


def _croniter(shape: _Shape, steps: int) -> Walk:
    start = _START.replace(tzinfo=None)
    slots = croniter(shape.expression, start)

    def walk() -> None:
        slots.set_current(start, force=True)
        for _ in range(steps):
            slots.get_next(datetime)

    return walk


def _cronsim(shape: _Shape, steps: int) -> Walk:
    fresh = CronSim(shape.expression, _START.astimezone(ZoneInfo(shape.zone)))

    def walk() -> None:
        slots = copy(fresh)  # which spares it the reading of the expression
        for _ in range(steps):
            next(slots)

    return walk


def _celery(shape: _Shape, steps: int) -> Walk:
    minute, hour, day, month, weekday = shape.expression.split()
    zone: tzinfo = ZoneInfo(shape.zone)
    schedule = crontab(
        minute=minute,
        hour=hour,
        day_of_month=day,
        month_of_year=month,
        day_of_week=weekday,
        nowfun=lambda: _START,
    )

    def walk() -> None:
        moment = _START
        for _ in range(steps):
            last, delta, _now = schedule.remaining_delta(moment, tz=zone)
            moment = last + delta

    return walk


def _jump(shape: _Shape, moments: list[datetime]) -> Walk:
    schedule = Cron(shape.expression, shape.zone)

    def walk() -> None:
        for moment in moments:
            schedule.next_after(moment)

    return walk


def _croniter_jump(shape: _Shape, moments: list[datetime]) -> Walk:
    naive = [moment.replace(tzinfo=None) for moment in moments]
    slots = croniter(shape.expression, naive[0])

    def walk() -> None:
        for moment in naive:
            slots.get_next(datetime, start_time=moment)

    return walk
