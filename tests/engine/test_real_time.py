"""What a manual clock cannot show: real threads, real signals, and a loop that is blocked."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Coroutine, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from anarchon import Event, RunContext, Scheduler
from anarchon.backends.memory import MemoryBackend
from anarchon.clock import SystemClock
from anarchon.errors import ConfigurationError
from anarchon.store import Backend, Claim, ClaimAnswer, LeaseStore, Reply

LEASE = 1.0


def soon(seconds: float = 1.0) -> datetime:
    moment = SystemClock().wall() + timedelta(seconds=seconds)
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


async def until(condition: object, seconds: float = 15) -> None:
    assert callable(condition)
    clock = SystemClock()
    end = clock.monotonic() + seconds
    while not condition():
        assert clock.monotonic() < end, "not so in time"
        await clock.sleep(0.005)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str | Backend:
    return MemoryBackend() if request.param == "memory" else f"sqlite:///{tmp_path}/leases.db"


async def test_a_handler_that_blocks_the_loop_keeps_its_lease(store: str | Backend) -> None:
    """The keeper renews on a thread and a connection of its own."""
    attempts: list[int] = []
    told: list[Event] = []

    async def blocking(ctx: RunContext) -> str | None:
        attempts.append(ctx.attempt)
        time.sleep(3 * LEASE)  # noqa: ASYNC251, TID251 - the point
        return ctx.signal.reason

    at = soon()
    runner = Scheduler(store, name="runner")
    runner.at("block", at, blocking, lease=LEASE, jitter=0)
    for kind in ("takeover", "lease_lost", "success"):
        runner.on(kind, told.append)
    backup = Scheduler(store, name="backup")
    backup.on("takeover", told.append)

    def watch() -> None:
        backup.at("block", at, blocking, lease=LEASE, jitter=0)

    # the backup has a loop of its own, or it would be blocked too
    async with runner:
        await until(lambda: attempts)
        watch()
        with backup.start_in_background():
            await until(lambda: any(event.kind == "success" for event in told))
        [attempt] = await runner.history("block")

    assert attempts == [1]
    assert [(event.kind, event.detail) for event in told] == [("success", None)]
    assert attempt.state == "success"


async def test_a_claim_won_by_a_blocked_loop_is_kept_until_the_loop_goes_on() -> None:
    """The store has granted it while nobody here could read the answer."""

    class Slow:
        """A store whose claims block the loop right after they were granted."""

        label = "slow://"

        def __init__(self, backend: MemoryBackend) -> None:
            self._backend = backend

        def connect(self, namespace: str) -> LeaseStore:
            store = self._backend.connect(namespace)
            claim = store.claim

            async def slow_claim(claims: Sequence[Claim]) -> Reply[ClaimAnswer]:
                reply = await claim(claims)
                if claims[0].job == "sync":
                    time.sleep(2 * LEASE)  # noqa: ASYNC251, TID251 - the point
                return reply

            store.claim = slow_claim  # type: ignore[method-assign]
            return store

    runs: list[tuple[int, str | None]] = []

    async def work(ctx: RunContext) -> None:
        runs.append((ctx.attempt, ctx.signal.reason))

    scheduler = Scheduler(Slow(MemoryBackend()))
    scheduler.at("sync", soon(), work, lease=LEASE, jitter=0)
    async with scheduler:
        await until(lambda: runs)

    assert runs == [(1, None)]


async def test_a_run_is_handed_over_from_one_thread_to_another(tmp_path: Path) -> None:
    """G7, between two schedulers that share nothing but the store."""
    store = f"sqlite:///{tmp_path}/leases.db"
    attempts: list[tuple[int, str]] = []

    def work(ctx: RunContext) -> None:
        attempts.append((ctx.attempt, ctx.instance))
        if ctx.attempt == 1:
            ctx.signal.wait_in_thread(20)
            ctx.signal.raise_if_set()

    at = soon()
    schedulers = [Scheduler(store, name=name) for name in ("first", "second")]
    for scheduler in schedulers:
        scheduler.at("move", at, work, lease=LEASE, jitter=0)
    running = {s: s.start_in_background() for s in schedulers}
    try:
        await until(lambda: attempts)
        holder = next(s for s in schedulers if s.instance == attempts[0][1])
        await asyncio.get_running_loop().run_in_executor(None, running.pop(holder).stop)
        await until(lambda: len(attempts) == 2)
    finally:
        for background in running.values():
            await asyncio.get_running_loop().run_in_executor(None, background.stop)
    history = await schedulers[0].history("move")

    assert [attempt for attempt, _ in attempts] == [1, 2]
    assert attempts[0][1] != attempts[1][1]
    assert [a.state for a in history] == ["success", "interrupted"]


def test_a_scheduler_in_the_background_needs_no_loop() -> None:
    before = set(threading.enumerate())
    ran = threading.Event()
    scheduler = Scheduler(MemoryBackend())
    scheduler.at("once", soon(), lambda ctx: ran.set())

    with scheduler.start_in_background():
        assert ran.wait(10)

    assert "not running" in repr(scheduler)
    left = {t.name for t in set(threading.enumerate()) - before}
    assert left & {"anarchon-keeper", "anarchon-scheduler"} == set()


def test_a_start_that_fails_in_the_background_fails_where_it_was_asked_for() -> None:
    class Refusing:
        label = "refusing://"

        def connect(self, namespace: str) -> LeaseStore:
            raise ConfigurationError("not today", fix="come back tomorrow")

    scheduler = Scheduler(Refusing())

    with pytest.raises(ConfigurationError):
        scheduler.start_in_background()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_run_ends_on_a_signal_and_hands_over(tmp_path: Path, number: signal.Signals) -> None:
    script = tmp_path / "service.py"
    script.write_text(
        textwrap.dedent(
            """
            import asyncio
            from anarchon import Scheduler

            scheduler = Scheduler("sqlite:///leases.db", name="service")

            @scheduler.every("sync", "100ms", max_late="60s", jitter=0)
            async def sync(ctx):
                print("runs", flush=True)
                await ctx.signal.wait()
                ctx.signal.raise_if_set()

            asyncio.run(scheduler.run())
            print("ended", flush=True)
            """
        )
    )
    service = subprocess.Popen(
        [sys.executable, script],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONWARNINGS": "error"},
    )
    try:
        assert service.stdout is not None
        assert service.stdout.readline() == "runs\n"
        service.send_signal(number)
        out, err = service.communicate(timeout=20)
    finally:
        service.kill()

    assert (out, err, service.returncode) == ("ended\n", "", 0)
    [attempt] = asyncio.run(Scheduler(f"sqlite:///{tmp_path}/leases.db").history("sync", limit=1))
    assert attempt.state == "interrupted"


async def test_the_keeper_s_thread_and_connection_go_with_the_scheduler(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    scheduler = Scheduler(f"sqlite:///{tmp_path}/leases.db")
    ran = asyncio.Event()

    async def work(ctx: RunContext) -> None:
        await SystemClock().sleep(LEASE / 2)
        ran.set()

    scheduler.at("once", soon(), work, lease=LEASE, jitter=0)
    async with scheduler:
        await until(ran.is_set)

    def left() -> list[str]:
        new = set(threading.enumerate()) - before
        return [t.name for t in new if t.name.startswith("anarchon")]

    assert "anarchon-keeper" not in left()
    await until(lambda: not left())  # a pool's thread ends by itself, a moment later


async def test_history_can_be_read_without_starting(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/leases.db"
    done = asyncio.Event()

    async def work(ctx: RunContext) -> int:
        done.set()
        return 42

    scheduler = Scheduler(store)
    scheduler.at("once", soon(), work)
    async with scheduler:
        await until(done.is_set)

    [attempt] = await Scheduler(store).history("once")
    assert (attempt.state, attempt.detail) == ("success", "42")
    assert attempt.started.tzinfo is UTC


async def test_a_keeper_that_cannot_have_a_loop_fails_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As without file descriptors: nobody would keep the leases, and nobody waits for it."""

    def run(work: Coroutine[Any, Any, None]) -> None:
        work.close()
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("anarchon.keeper.asyncio.run", run)
    scheduler = Scheduler(MemoryBackend())

    with pytest.raises(OSError, match="Too many open files"):
        await scheduler.start()

    assert "not running" in repr(scheduler)


async def test_a_stop_needs_nothing_of_the_loop_s_own_threads() -> None:
    scheduler = Scheduler(MemoryBackend())
    await scheduler.start()
    await asyncio.get_running_loop().shutdown_default_executor()

    await scheduler.stop()
