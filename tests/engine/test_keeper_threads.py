"""The keeper's thread and the loop's: under stress by chance, and at the places where they meet.

The manual clock keeps both on one loop, so what can only go wrong between two threads is looked
for here, on a real clock.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, cast

import pytest

from anarchon import RunContext
from anarchon.backends.memory import MemoryBackend
from anarchon.clock import SystemClock
from anarchon.keeper import Held, Keeper, margin
from anarchon.store import LeaseStore, Renewal, Reply
from tests.engine.unruly import Instance, Watcher

LEASE, HEARTBEAT = 1.0, 1 / 3
MARGIN = margin(timedelta(seconds=LEASE)).total_seconds()
QUICK, LONG = 60, 20


def declare(instance: Instance, watcher: Watcher, seed: int) -> None:
    random = Random(seed)
    nap = threading.Event()

    def work(ctx: RunContext) -> None:
        watcher.begins(instance, ctx)
        length = random.choice((0.005, 0.3, 3.0)) if ctx.job.startswith("long") else 0.005
        if random.random() < 0.5:
            ctx.signal.wait_in_thread(length)
        else:
            nap.wait(length)  # deaf: it works on whatever its signal says
        watcher.ends(ctx)

    async def block_the_loop(ctx: RunContext) -> None:
        end = instance.clock.monotonic() + 1.3 * LEASE
        while instance.clock.monotonic() < end:
            pass
        watcher.seen["blocked loops"] += 1

    options: dict[str, Any] = {"lease": f"{LEASE:.0f}s", "jitter": "50ms"}
    for number in range(QUICK):
        instance.scheduler.every(f"quick {number}", "500ms", work, **options)
    for number in range(LONG):
        instance.scheduler.every(f"long {number}", "1s", work, overlap="allow", **options)
    options["lease"] = "3s"
    instance.scheduler.every("long and patient", "1s", work, overlap="allow", **options)
    instance.scheduler.every("blocker", "4s", block_the_loop, **options)


@pytest.mark.parametrize(
    ("seed", "seconds"),
    [
        (1, 12),
        *(
            pytest.param(seed, 60, marks=[pytest.mark.soak, pytest.mark.timeout(180)])
            for seed in range(2, 8)
        ),
    ],
)
async def test_leases_are_kept_and_given_up_in_time_whatever_loop_and_store_do(
    seed: int, seconds: float, caplog: pytest.LogCaptureFixture
) -> None:
    """G1, G4; S4 and S6: what is trusted here lives in the store, and nobody else has it."""
    memory = MemoryBackend()
    first = Instance(memory, "first", seed, away_at=2)
    second = Instance(memory, "second", seed + 1000, away_at=6)
    instances = [first, second]
    watcher = Watcher(memory, instances)
    for instance in instances:
        declare(instance, watcher, seed)
    clock = SystemClock()
    caplog.set_level(logging.CRITICAL)
    background = second.scheduler.start_in_background()
    await first.scheduler.start()
    for instance in instances:
        instance.spy()
    began = clock.monotonic()

    with watcher:
        while clock.monotonic() - began < seconds:
            await clock.sleep(0.1)
        threads = [instance.keeper._thread for instance in instances]
        assert all(thread is not None and thread.is_alive() for thread in threads)
    for instance in instances:
        instance.way.is_calm = True
    await first.scheduler.stop()
    await asyncio.get_running_loop().run_in_executor(None, background.stop)

    assert watcher.wrong == []
    assert watcher.latest_signal < MARGIN + watcher.stall
    for instance in instances:
        check_renewals(instance, watcher.stall)
        check_cost(instance, clock.monotonic() - began)
    assert caplog.records == []  # such as a keeper that died
    assert sum(instance.held for instance in instances) > 100 * seconds
    rare = ("bodies beside a former one",) if seconds > 30 else ()
    for what in ("takeovers", "told to end", "blocked loops", *rare):
        assert watcher.seen[what], f"{what}: none, and so nothing was shown"


def check_renewals(instance: Instance, stall: float) -> None:
    for call in instance.way.renewals:
        for token, renewed in call.answers.items():
            dropped = instance.dropped.get(token, math.inf)
            assert call.sent < dropped + 0.05 + stall, "renewed after it was dropped"
            if renewed:
                assert call.arrived < instance.way.ended.get(token, math.inf), "renewed at its end"


def check_cost(instance: Instance, seconds: float) -> None:
    """A heartbeat is one call for the urgent and one for the patient; what failed comes sooner."""
    sent, failed = instance.way.heartbeats["sent"], instance.way.heartbeats["failed"]
    assert sent < 2 * (seconds / HEARTBEAT + 2 * failed)
    # however many leases come and go meanwhile
    assert instance.clock.waits["anarchon-keeper"] < 10 * seconds / HEARTBEAT


class Gated:
    """A store that only renews, and answers once its gate is open; asked by the keeper's thread."""

    label = "gated://"

    def __init__(self) -> None:
        self._clock = SystemClock()
        self.gate = threading.Event()
        self.gate.set()
        self.calls: list[list[str]] = []
        self.unknown: set[str] = set()
        self.closed = 0

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        self.closed += 1

    async def renew(self, renewals: Sequence[Renewal]) -> Reply[bool]:
        tokens = [one.token for one in renewals]
        answers = tuple(token not in self.unknown for token in tokens)
        self.calls.append(tokens)
        while not self.gate.is_set():
            await self._clock.sleep(0.002)
        return Reply(self._clock.wall(), answers)


@asynccontextmanager
async def keeping() -> AsyncIterator[tuple[Keeper, Gated]]:
    """Give a keeper on its own thread, and the store it asks."""
    store = Gated()
    keeper = Keeper(cast(Callable[[], LeaseStore], lambda: store), SystemClock())
    keeper.start()
    try:
        yield keeper, store
    finally:
        await keeper.stop()


def a_lease(token: str, lease: float = LEASE) -> Held:
    slot = datetime(2026, 1, 1, tzinfo=UTC)
    length = timedelta(seconds=lease)
    return Held("job", slot, token, length, length / 3)


def granted(keeper: Keeper, token: str) -> Held:
    held = a_lease(token)
    keeper.hold(held)
    keeper.grant(held, held.lease, SystemClock().monotonic())
    return held


async def until(condition: Callable[[], object], seconds: float = 10) -> None:
    clock = SystemClock()
    end = clock.monotonic() + seconds
    while not condition():
        assert clock.monotonic() < end, "not so in time"
        await clock.sleep(0.002)


async def test_a_lease_dropped_during_its_renewal_is_not_renewed_again() -> None:
    async with keeping() as (keeper, store):
        held, kept = granted(keeper, "dropped"), granted(keeper, "kept")
        store.gate.clear()
        await until(lambda: store.calls)

        held.over = True
        keeper.drop(held)
        store.gate.set()
        await until(lambda: len(store.calls) >= 4)

        assert store.calls[0] == ["dropped", "kept"]
        assert store.calls[1:4] == [["kept"]] * 3
        assert not kept.signal.is_set()


async def test_a_lease_granted_during_a_renewal_of_its_token_is_kept() -> None:
    """The renewal was there before the claim, and is answered after it: it says no."""
    async with keeping() as (keeper, store):
        granted(keeper, "another")
        held = a_lease("claimed")
        keeper.hold(held)
        store.unknown = {"claimed"}
        store.gate.clear()
        await until(lambda: store.calls)
        assert "claimed" in store.calls[0]

        keeper.grant(held, held.lease, SystemClock().monotonic())
        store.unknown = set()
        store.gate.set()
        await until(lambda: len(store.calls) >= 4)

        assert not held.signal.is_set()
        assert held.is_trusted_at(SystemClock().monotonic())


async def test_a_lease_held_during_a_renewal_is_renewed_right_after_it() -> None:
    async with keeping() as (keeper, store):
        granted(keeper, "first")
        store.gate.clear()
        await until(lambda: store.calls)

        second = granted(keeper, "second")
        store.gate.set()
        await until(lambda: ["first", "second"] in store.calls, LEASE)

        assert not second.signal.is_set()


async def test_a_lease_held_while_the_keeper_looks_when_to_wake_is_renewed_in_time() -> None:
    """The look has missed it, and the keeper has not said yet when it will wake."""
    async with keeping() as (keeper, store):
        looked, told = threading.Event(), threading.Event()
        look = keeper._next_wake

        def slowly(renewing: bool) -> float:
            wakes_at = look(renewing)
            looked.set()
            told.wait(10)
            return wakes_at

        keeper._next_wake = slowly  # type: ignore[method-assign]
        keeper._call(keeper._wake.set)
        await until(looked.is_set)

        held = granted(keeper, "told")
        told.set()
        await until(lambda: len(store.calls) >= 2, LEASE)

        assert not held.signal.is_set()


async def test_a_stop_with_a_renewal_on_the_wire_waits_for_no_answer() -> None:
    async with keeping() as (keeper, store):
        granted(keeper, "held")
        store.gate.clear()
        await until(lambda: store.calls)
        thread = keeper._thread

        await asyncio.wait_for(keeper.stop(), HEARTBEAT)  # noqa: TID251 - its deadline is later

        assert thread is not None
        assert not thread.is_alive()
        assert store.closed == 1
        assert keeper._failure is None


async def test_what_is_told_to_a_keeper_that_has_stopped_does_no_harm() -> None:
    """A body that nobody could end may come to its end after the stop."""
    async with keeping() as (keeper, store):
        held = granted(keeper, "held")
        await keeper.stop()

        keeper.drop(held)
        granted(keeper, "late")

        assert store.calls == []


async def test_a_stop_may_meet_a_keeper_that_ends_in_this_very_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It sees the stop by itself; its loop closes between a look at it and a word to it."""
    async with keeping() as (keeper, _):
        loop, thread = keeper._loop, keeper._thread
        assert loop is not None
        assert thread is not None
        keeper._stopped = True
        loop.call_soon_threadsafe(keeper._wake.set)
        await until(lambda: not thread.is_alive())
        with monkeypatch.context() as seen_too_early:
            seen_too_early.setattr(loop, "is_closed", lambda: False)

            await keeper.stop()
