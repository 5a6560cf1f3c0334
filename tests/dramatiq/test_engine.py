"""Which process of a machine runs the schedule, and when none does."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from anarchon import Every, Scheduler
from anarchon.testing import ManualClock
from anarchon_dramatiq import every
from anarchon_dramatiq.engine import Engine
from anarchon_dramatiq.host_lock import HostLock
from tests.celery.beats import wait_until
from tests.dramatiq.bench import Bench, declare
from tests.dramatiq.conftest import Make
from tests.dramatiq.pods import ROOT

HOLD = """
import os, signal, sys
from anarchon_dramatiq.host_lock import HostLock

lock = HostLock("text")
taken = lock.take()
if os.fork() == 0:
    # as a program that an actor starts, and that outlives the worker
    signal.pause()
print(taken, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _on_a_machine_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


@pytest.fixture
def holder() -> Iterator[subprocess.Popen[str]]:
    """A process that has the lock, and has started a program."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'integrations'}"},
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        yield process
        os.killpg(process.pid, signal.SIGKILL)


def test_one_process_has_the_lock(holder: subprocess.Popen[str]) -> None:
    lock = HostLock("text")

    assert not lock.take()
    assert HostLock("another text").take()


def test_the_lock_of_a_process_that_was_killed_is_free_though_its_program_lives(
    holder: subprocess.Popen[str],
) -> None:
    lock = HostLock("text")
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()

    assert lock.take()
    assert lock.take(), "asked again"


def test_a_lock_that_was_released_is_the_next_ones() -> None:
    lock = HostLock("other text")
    assert lock.take()
    assert not is_free(lock.path)

    lock.release()

    assert is_free(lock.path)


def test_a_holder_that_shows_no_life_is_told_from_one_that_does(
    holder: subprocess.Popen[str],
) -> None:
    clock = ManualClock()
    lock = HostLock("text", clock=clock)

    def looks_silent_after(seconds: float) -> bool:
        asyncio.run(clock.advance(seconds))
        return lock.is_silent()

    assert [looks_silent_after(s) for s in (0, 4, 2)] == [False, False, True]
    os.utime(lock.path)
    assert [looks_silent_after(s) for s in (0, 4, 2)] == [False, False, True]


def test_a_lock_that_nobody_has_yet_is_not_silent() -> None:
    assert not HostLock("text that nobody has").is_silent()


def test_where_nothing_can_be_locked_everybody_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "nowhere"))

    assert HostLock("text").take()
    assert "each process of this worker asks the store by itself" in caplog.text


def test_a_link_that_somebody_laid_in_our_way_is_not_followed(tmp_path: Path) -> None:
    lock = HostLock("text")
    Path(lock.path).symlink_to(tmp_path / "theirs")

    assert lock.take()
    assert not (tmp_path / "theirs").exists()


class TestEngine:
    """The scheduler behind the lock."""

    def test_it_runs_until_it_is_told(self, tmp_path: Path) -> None:
        ran = threading.Event()
        engine = Engine(lambda: scheduler_of(ran))
        engine.start()
        assert ran.wait(20)
        (lock,) = tmp_path.glob("*.lock")
        assert not is_free(lock)

        engine.tell()
        engine.join()

        wait_until(lambda: names() == [])
        assert is_free(lock)

    def test_it_shows_that_it_lives(self, tmp_path: Path) -> None:
        ran = threading.Event()
        engine = Engine(lambda: scheduler_of(ran))
        engine.start()
        assert ran.wait(20)
        (lock,) = tmp_path.glob("*.lock")
        os.utime(lock, (0, 0))

        wait_until(lambda: lock.stat().st_mtime > 0)

        engine.tell()
        engine.join()

    def test_it_waits_for_the_lock_and_ends_there_when_told(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked, ran = threading.Event(), threading.Event()
        monkeypatch.setattr(HostLock, "take", lambda _: asked.set())
        engine = Engine(lambda: scheduler_of(ran))
        engine.start()
        assert asked.wait(20)

        engine.tell()
        engine.join()

        wait_until(lambda: names() == [])
        assert not ran.is_set()

    def test_it_steps_in_for_one_that_shows_no_life(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        take = HostLock.take
        monkeypatch.setattr(HostLock, "take", lambda it: "-1.lock" in it.path and take(it))
        monkeypatch.setattr(HostLock, "is_silent", lambda _: True)
        ran = threading.Event()
        engine = Engine(lambda: scheduler_of(ran))

        engine.start()

        assert ran.wait(20)
        assert "shows no life: stepping in" in caplog.text
        engine.tell()
        engine.join()

    def test_it_ends_where_there_is_nothing_to_schedule(self) -> None:
        engine = Engine(lambda: Scheduler("memory://"))
        engine.start()
        engine.join()

        wait_until(lambda: names() == [])


def scheduler_of(ran: threading.Event) -> Scheduler:
    scheduler = Scheduler("memory://", jitter=0)
    scheduler.add("job", Every("100ms"), lambda ctx: ran.set())
    return scheduler


class TestInAWorker:
    """Whether a worker runs the schedule."""

    def test_a_stub_brokers_does_not(self, bench: Bench) -> None:
        bench.start()

        assert "anarchon-engine" not in names()

    def test_a_stub_brokers_does_if_it_is_told_to(self, make: Make) -> None:
        bench = make(embedded=True)
        ran = threading.Event()
        declare(bench.broker, ran.set, actor_name="tick", periodic=every("1s", jitter=0))
        bench.start()

        assert ran.wait(20)
        bench.stop()
        wait_until(lambda: names() == [])

    def test_what_is_declared_once_it_has_started_is_warned_of(
        self, make: Make, caplog: pytest.LogCaptureFixture
    ) -> None:
        bench = make(embedded=True)
        declare(bench.broker, len, actor_name="early", periodic=every("1d"))
        bench.start()
        assert caplog.text == ""

        declare(bench.broker, len, actor_name="late", periodic=every("1d", name="late-daily"))

        assert "declared after this worker has started: late-daily; no process" in caplog.text

    def test_one_that_is_told_not_to_does_not(self, make: Make) -> None:
        bench = make(embedded=False)
        bench.start()

        assert "anarchon-engine" not in names()


def is_free(lock: str | Path) -> bool:
    """Tell whether another process could have the lock."""
    script = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'w'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    done = subprocess.run([sys.executable, "-c", script, str(lock)], stderr=subprocess.PIPE)
    return done.returncode == 0


def names() -> list[str]:
    """Return the names of our threads that are alive."""
    return [t.name for t in threading.enumerate() if t.name.startswith("anarchon-")]
