"""A run's states, the signal that ends an attempt, and what a handler is told."""

import asyncio
import logging
import threading
from datetime import UTC, datetime

import pytest

from anarchon.errors import Interrupted, LeaseLost
from anarchon.run import RunContext, RunState, Signal

SLOT = datetime(2026, 11, 29, 12, 0, 10, tzinfo=UTC)


def context(**fields: object) -> RunContext:
    told = {
        "job": "sync",
        "slot": SLOT,
        "attempt": 1,
        "fence": 7,
        "token": "secret",
        "instance": "web-1",
        "namespace": "shop",
        "deadline": None,
        "signal": Signal(),
        **fields,
    }
    return RunContext(**told)  # type: ignore[arg-type]


def test_only_claimed_queued_and_running_go_on() -> None:
    assert {state for state in RunState if not state.has_ended} == {"claimed", "queued", "running"}


def test_the_first_reason_stays() -> None:
    signal = Signal()

    assert (signal.is_set(), signal.reason) == (False, None)
    signal.raise_if_set()
    assert signal.set("stop") is True
    assert signal.set("lease_lost") is False

    assert (signal.is_set(), signal.reason, repr(signal)) == (True, "stop", "<Signal stop>")


@pytest.mark.parametrize(
    ("reason", "error"),
    [("stop", Interrupted), ("timeout", Interrupted), ("lease_lost", LeaseLost)],
)
def test_a_long_loop_is_ended_by_an_error_that_names_the_reason(
    reason: str, error: type[Interrupted]
) -> None:
    signal = Signal()
    signal.set(reason)

    with pytest.raises(Interrupted) as caught:
        signal.raise_if_set()

    assert (type(caught.value), caught.value.reason) == (error, reason)


async def test_a_coroutine_waits_for_the_signal_set_from_another_thread() -> None:
    signal = Signal()
    waiters = [asyncio.create_task(signal.wait()) for _ in range(3)]
    await asyncio.get_running_loop().run_in_executor(None, lambda: None)

    setting = threading.Thread(target=signal.set, args=("lease_lost",))
    setting.start()

    assert await asyncio.gather(*waiters) == ["lease_lost"] * 3
    setting.join()
    assert await signal.wait() == "lease_lost"


async def test_who_stops_waiting_leaves_nothing_behind() -> None:
    signal = Signal()
    waiter = asyncio.create_task(signal.wait())
    await asyncio.get_running_loop().run_in_executor(None, lambda: None)
    waiter.cancel()
    await asyncio.gather(waiter, return_exceptions=True)

    assert signal._waiters == []


def test_a_thread_waits_for_the_signal() -> None:
    signal = Signal()
    assert signal.wait_in_thread(0.001) is False
    woken: list[bool] = []
    waiting = threading.Thread(target=lambda: woken.append(signal.wait_in_thread(20)))
    waiting.start()

    signal.set("stop")

    waiting.join(20)
    assert woken == [True]


def test_a_loop_that_is_gone_is_no_matter() -> None:
    signal = Signal()
    loop = asyncio.new_event_loop()
    waiting = loop.create_task(signal.wait())
    loop.run_until_complete(asyncio.wait({waiting}, timeout=0.001))
    waiting.cancel()
    loop.run_until_complete(asyncio.wait({waiting}))
    signal._waiters.append((loop, asyncio.Event()))
    loop.close()

    assert signal.set("stop") is True


def test_the_idempotency_key_never_changes_its_form() -> None:
    """It is in other people's databases: the form is part of the promise."""
    assert context().idempotency_key == "shop:sync:1795953610000"
    assert context(attempt=2, fence=9, token="x").idempotency_key == context().idempotency_key


def test_the_logger_says_which_attempt_writes(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "anarchon.run")

    context(attempt=2).logger.info("moved %d rows", 3)

    assert caplog.messages == ["job=sync slot=2026-11-29T12:00:10.000Z attempt=2 moved 3 rows"]


def test_a_context_does_not_show_its_signal() -> None:
    assert "Signal" not in repr(context())
