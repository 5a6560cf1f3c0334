"""A scheduler that is kept alive on a thread of its own."""

import ctypes
import logging
import threading
from collections.abc import Callable, Iterator

import pytest

from anarchon import ConfigurationError, Every, Scheduler
from anarchon.scheduler.supervised import SupervisedScheduler
from tests.celery.beats import wait_until


class Making:
    """Makes schedulers with one job, and counts them and their runs."""

    def __init__(self) -> None:
        self.made: list[Scheduler] = []
        self.runs = threading.Semaphore(0)
        self.mistakes: list[Exception] = []

    def __call__(self) -> Scheduler:
        if self.mistakes:
            raise self.mistakes.pop()
        scheduler = Scheduler("memory://")
        scheduler.add("job", Every("100ms"), lambda ctx: self.runs.release())
        self.made.append(scheduler)
        return scheduler

    def wait_for_runs(self, count: int) -> None:
        for _ in range(count):
            assert self.runs.acquire(timeout=20)


Begin = Callable[[], SupervisedScheduler]


@pytest.fixture
def making() -> Making:
    return Making()


@pytest.fixture
def running(making: Making) -> Iterator[SupervisedScheduler]:
    running = SupervisedScheduler(making)
    yield running
    running.stop()
    wait_until(lambda: not names())


def names() -> list[str]:
    """Return the names of our threads that are alive."""
    return [t.name for t in threading.enumerate() if t.name.startswith("anarchon-")]


def end_its_thread() -> None:
    (thread,) = [t for t in threading.enumerate() if t.name == "anarchon-scheduler"]
    number = ctypes.c_ulong(thread.ident or 0)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(number, ctypes.py_object(SystemExit))


def test_it_runs_until_it_is_stopped(making: Making, running: SupervisedScheduler) -> None:
    running.start()
    running.start()
    making.wait_for_runs(2)

    running.stop()

    # threads of a pool end a moment after they are told to
    wait_until(lambda: not names())
    assert len(making.made) == 1


def test_what_was_stopped_does_not_start_again(
    making: Making, running: SupervisedScheduler
) -> None:
    running.stop()

    running.start()

    assert making.made == []


def test_another_takes_the_place_of_one_whose_thread_ended(
    making: Making, running: SupervisedScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    running.start()
    making.wait_for_runs(1)

    end_its_thread()
    wait_until(lambda: len(making.made) == 2)
    making.wait_for_runs(3)

    # nothing of the first is left that could renew a lease of its
    assert sorted(n for n in names() if "job" not in n and "publish" not in n) == [
        "anarchon-keeper",
        "anarchon-scheduler",
        "anarchon-watch",
    ]
    (said,) = [r for r in caplog.records if "thread has ended" in r.getMessage()]
    assert said.levelno == logging.ERROR
    assert said.getMessage().endswith("another starts in 1 s")


def test_one_that_cannot_be_made_is_made_later(
    making: Making, running: SupervisedScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    making.mistakes = [ConfigurationError("the store is of another version")]

    running.start()
    making.wait_for_runs(1)

    assert "the store is of another version" in caplog.text


def test_it_may_be_stopped_while_it_waits_to_try_again(
    making: Making, running: SupervisedScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    making.mistakes = [ConfigurationError("no")] * 20
    running.start()
    wait_until(lambda: "another starts in" in caplog.text)

    running.stop()

    assert names() == []
