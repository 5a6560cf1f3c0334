"""Several schedulers on one store, with one Celery project."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from celery import Celery
from celery.beat import BeatLazyFunc

from anarchon import EventKind, Scheduler
from anarchon.backends.memory import MemoryBackend
from anarchon_celery import scheduler_for
from tests.celery.runs import taken


async def until_published(fleet: list[Scheduler], count: int) -> None:
    """Run the fleet until so many messages were sent."""
    done = asyncio.Event()
    seen: list[Any] = []

    def note(event: Any) -> None:
        seen.append(event)
        if len(seen) == count:
            done.set()

    for scheduler in fleet:
        scheduler.on(EventKind.PUBLISHED, note)
    for scheduler in fleet:
        await scheduler.start()
    await done.wait()
    for scheduler in fleet:
        await scheduler.stop()


async def test_only_the_winner_evaluates_lazy_arguments(app: Celery) -> None:
    evaluated: list[int] = []

    def evaluate() -> int:
        evaluated.append(1)
        return len(evaluated)

    lazy = BeatLazyFunc(evaluate)
    app.conf.beat_schedule = {
        "job": {"task": "proj.note", "schedule": timedelta(seconds=0.3), "args": [lazy]}
    }
    backend = MemoryBackend()

    fleet = [scheduler_for(app, store=backend, name=str(n)) for n in range(3)]
    await until_published(fleet, 3)

    history = await fleet[0].history("job")
    assert len(evaluated) == len({attempt.slot for attempt in history}) == len(history)
    assert taken(app).payload[0] == [1]


async def test_entries_run_side_by_side(app: Celery) -> None:
    app.conf.beat_schedule = {
        name: {"task": "proj.note", "schedule": 1, "args": [name]} for name in "abcde"
    }

    scheduler = scheduler_for(app, store=MemoryBackend())
    await until_published([scheduler], 5)

    assert {taken(app).payload[0][0] for _ in range(5)} == set("abcde")


async def test_one_entry_that_cannot_be_sent_delays_no_other(app: Celery) -> None:
    app.conf.beat_schedule = {
        "bad": {"task": "proj.note", "schedule": 1, "args": [BeatLazyFunc(int, "x")]},
        "good": {"task": "proj.note", "schedule": 1},
    }

    scheduler = scheduler_for(app, store=MemoryBackend())
    await until_published([scheduler], 2)

    assert {taken(app).headers["periodic_task_name"] for _ in range(2)} == {"good"}


def test_making_a_scheduler_connects_nowhere(app: Celery, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("it connects")

    monkeypatch.setattr("socket.socket.connect", refuse)
    app.conf.update(broker_url="redis://127.0.0.1:1")
    app.conf.beat_schedule = {"job": {"task": "proj.note", "schedule": 1}}

    assert len(scheduler_for(app).jobs) == 1
