"""A scheduler in the background, and the threads of the program it runs in."""

import asyncio
import threading

import pytest

from anarchon import NotRunning, Scheduler
from anarchon.backends.memory import MemoryBackend
from anarchon.run import RunContext


def test_a_job_declared_on_another_thread_fires() -> None:
    scheduler = Scheduler(MemoryBackend())
    scheduler.every("idle", "1h", lambda ctx: None)
    ran = threading.Event()

    def late(ctx: RunContext) -> None:
        ran.set()

    with scheduler.start_in_background():
        scheduler.every("late", "100ms", late)

        assert ran.wait(10)


def test_the_history_of_a_scheduler_in_the_background_is_read_on_another_loop() -> None:
    scheduler = Scheduler(MemoryBackend())
    scheduler.every("sync", "1h", lambda ctx: None)

    with scheduler.start_in_background():
        attempts = asyncio.run(scheduler.history("sync"))

    assert attempts == ()


def test_stopping_it_on_another_loop_is_refused_and_it_runs_on() -> None:
    scheduler = Scheduler(MemoryBackend())

    with scheduler.start_in_background():
        with pytest.raises(NotRunning):
            asyncio.run(scheduler.stop())

        assert scheduler.is_ready
