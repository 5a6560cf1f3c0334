"""What a worker asks of a store, and how it keeps alive what it has begun."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import pytest

from anarchon.backends.memory import MemoryBackend
from anarchon.clock import SystemClock
from anarchon.errors import OutcomeUnknown, StoreError, StoreUnavailable
from anarchon.message import PublishedRun
from anarchon.run import Attempt, OnStoreError, Overlap, RunState
from anarchon.store import Begin, Claim, LeaseStore, Mode, Renewal, Reply, Terms
from anarchon.worker import Delivery, Renewals, Tracker

SECOND = timedelta(seconds=1)


class Door:
    """A backend in this process that can be shut, and counts who is inside."""

    def __init__(self) -> None:
        self.backend = MemoryBackend()
        self.label = "door"
        self.open = threading.Event()
        self.open.set()
        self.inside = 0
        self.renewals: list[list[Renewal]] = []
        #: Jobs that it does not answer for, though it does for others.
        self.silent: set[str] = set()
        self.lost_answers = 0
        self.begins = 0

    def connect(self, namespace: str) -> LeaseStore:
        return _Guest(self, self.backend.connect(namespace))


class _Guest:
    def __init__(self, door: Door, store: LeaseStore) -> None:
        self._door, self._store, self._is_in = door, store, False
        self.label = door.label

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def open(self) -> None:
        self._check()
        await self._store.open()
        self._door.inside += 1
        self._is_in = True

    async def close(self) -> None:
        self._door.inside -= self._is_in
        self._is_in = False
        await self._store.close()

    async def begin(self, begins: Sequence[Begin]) -> Reply[bool]:
        self._check()
        self._door.begins += len(begins)
        reply = await self._store.begin(begins)
        if self._door.lost_answers:
            self._door.lost_answers -= 1
            raise OutcomeUnknown(self.label, "the answer was lost")
        return reply

    async def renew(self, renewals: Sequence[Renewal]) -> Reply[bool]:
        self._check()
        jobs = {renewal.job for renewal in renewals}
        if jobs & self._door.silent:
            kind = StoreUnavailable if jobs <= self._door.silent else OutcomeUnknown
            error = kind(self.label, "a node is down")
            error.partly = True
            raise error
        self._door.renewals.append(list(renewals))
        return await self._store.renew(renewals)

    def _check(self) -> None:
        if not self._door.open.is_set():
            raise StoreUnavailable(self.label, "shut")


@pytest.fixture
def door() -> Door:
    return Door()


@pytest.fixture
def tracker(door: Door) -> Iterator[Tracker]:
    tracker = Tracker(door, "here", "worker-1")
    yield tracker
    tracker.close(5)


def publish(door: Door, job: str = "job", lease: timedelta = 3 * SECOND) -> PublishedRun:
    """Claim a slot as its publisher would."""

    async def claim() -> PublishedRun:
        store = door.backend.connect("here")
        now = (await store.active(())).time
        slot = now.replace(microsecond=0)
        terms = Terms(lease, Overlap.SKIP, 3, RunState.CLAIMED, timedelta(minutes=1))
        asked = Claim(job, slot, f"token of {job}", Mode.SCHEDULED, "web-1", terms, 60 * SECOND)
        (won,) = (await store.claim([asked])).answers
        return PublishedRun("here", job, slot, 1, asked.token, won.fence, lease, OnStoreError.RETRY)

    return asyncio.run(claim())


def attempt_of(door: Door, job: str = "job") -> Attempt:
    async def ask() -> Attempt:
        return (await door.backend.connect("here").history([job], 1)).answers[0]

    return asyncio.run(ask())


def a_delivery(run: PublishedRun, nonce: str = "n1", retry: int = 0) -> Delivery:
    return Delivery(run, retry, nonce, f"message {nonce}")


def wait_until(fits: Callable[[], bool], seconds: float = 5) -> None:
    clock, pause = SystemClock(), threading.Event()
    end = clock.monotonic() + seconds
    while not fits():
        assert clock.monotonic() < end
        pause.wait(0.01)


def test_one_delivery_begins_and_another_does_not(door: Door, tracker: Tracker) -> None:
    run = publish(door)

    assert tracker.begin(a_delivery(run)).wait(5)
    assert tracker.begin(a_delivery(run)).wait(5)
    assert not tracker.begin(a_delivery(run, "n2")).wait(5)
    assert attempt_of(door).worker == "worker-1"


def test_a_lost_answer_is_asked_for_again(door: Door, tracker: Tracker) -> None:
    door.lost_answers = 1

    assert tracker.begin(a_delivery(publish(door))).wait(5)
    assert door.begins == 2


def test_an_end_that_nobody_waits_for_is_recorded_when_the_store_is_back(
    door: Door, tracker: Tracker
) -> None:
    delivery = a_delivery(publish(door))
    assert tracker.begin(delivery).wait(5)
    tracker.close(5)
    door.open.clear()

    later = Tracker(door, "here", "worker-1")
    ended = later.finish(delivery, RunState.FAILED, "it broke")
    with pytest.raises(StoreError):
        ended.wait(0.3)
    door.open.set()

    assert ended.wait(10)
    assert (attempt_of(door).state, attempt_of(door).detail) == (RunState.FAILED, "it broke")
    later.close(5)


def test_an_end_waits_for_its_beginning(door: Door, tracker: Tracker) -> None:
    delivery = a_delivery(publish(door))
    door.open.clear()
    begun = tracker.begin(delivery)
    ended = tracker.finish(delivery, RunState.SUCCESS, begun=begun)
    door.open.set()

    assert ended.wait(10)
    assert attempt_of(door).state is RunState.SUCCESS


def test_a_question_that_was_taken_back_is_not_asked_once_the_store_is_back(
    door: Door, tracker: Tracker
) -> None:
    door.open.clear()
    run = publish(door)
    asked = tracker.begin(a_delivery(run))
    with pytest.raises(StoreError):
        asked.wait(0.3)

    asked.take_back()
    door.open.set()

    with pytest.raises(StoreUnavailable):
        asked.wait(5)
    assert tracker.begin(a_delivery(run, "n2")).wait(5)
    assert door.begins == 1


def test_a_run_waits_for_its_retry_and_goes_on_with_it(door: Door, tracker: Tracker) -> None:
    run = publish(door)
    first, second = a_delivery(run), a_delivery(run, "n2", retry=1)
    assert tracker.begin(first).wait(5)

    assert tracker.wait_for_retry(first, 1, SECOND).wait(5)
    assert attempt_of(door).state is RunState.QUEUED
    assert not tracker.begin(first).wait(5)
    assert tracker.begin(second).wait(5)
    assert not tracker.finish(first, RunState.FAILED).wait(5)
    assert tracker.finish(second, RunState.SUCCESS).wait(5)


def test_work_that_nobody_can_end_has_failed_at_its_limit(door: Door, tracker: Tracker) -> None:
    delivery, on_time = a_delivery(publish(door)), threading.Event()
    assert tracker.begin(delivery).wait(5)

    ended = tracker.finish_after(0.1, delivery, "too long", on_time.set)

    assert ended.wait(5)
    assert on_time.is_set()
    assert attempt_of(door).detail == "too long"


def test_a_connection_goes_when_nobody_needs_it(
    door: Door, tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anarchon.worker.errands.IDLE", 0.1)
    run = publish(door)

    assert tracker.begin(a_delivery(run)).wait(5)
    wait_until(lambda: door.inside == 0)

    assert tracker.finish(a_delivery(run), RunState.SUCCESS).wait(5)
    assert door.inside <= 1


def test_many_threads_share_one_connection(door: Door, tracker: Tracker) -> None:
    runs = [publish(door, f"job {number}") for number in range(20)]
    most: list[int] = []

    def work(run: PublishedRun) -> None:
        assert tracker.begin(a_delivery(run)).wait(5)
        most.append(door.inside)
        assert tracker.finish(a_delivery(run), RunState.SUCCESS).wait(5)

    threads = [threading.Thread(target=work, args=(run,)) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert most == [1] * 20


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_a_thread_of_its_own(door: Door, tracker: Tracker) -> None:
    run = publish(door)
    assert tracker.begin(a_delivery(run)).wait(5)

    child = os.fork()
    if child == 0:
        signal.alarm(20)
        # the store of this test is in the process, so the child has a copy of it
        os._exit(0 if tracker.begin(a_delivery(run)).wait(10) else 1)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert tracker.finish(a_delivery(run), RunState.SUCCESS).wait(5)


class Working:
    """The messages a worker has, and those it is at work on."""

    def __init__(self, door: Door) -> None:
        self.known: list[PublishedRun] = []
        self.active: list[PublishedRun] = []
        self.renewals = Renewals(
            lambda: door.connect("here"),
            SystemClock(),
            "worker-1",
            known=lambda: self.known,
            active=lambda: self.active,
        )

    def receive(self, *runs: PublishedRun, active: bool = True) -> None:
        self.known += runs
        self.active += runs if active else ()
        self.renewals.call()


@pytest.fixture
def working(door: Door) -> Iterator[Working]:
    working = Working(door)
    yield working
    working.renewals.close(5)


def test_what_was_begun_is_renewed_in_one_call(
    door: Door, tracker: Tracker, working: Working
) -> None:
    runs = [publish(door, f"job {number}", 0.6 * SECOND) for number in range(3)]
    for run in runs:
        assert tracker.begin(a_delivery(run)).wait(5)

    working.receive(*runs)
    wait_until(lambda: len(door.renewals) >= 5)

    assert {len(call) for call in door.renewals} == {3}
    assert {one.holder for call in door.renewals for one in call} == {"worker-1"}
    for run in runs:
        assert tracker.finish(a_delivery(run), RunState.SUCCESS).wait(5)


def test_a_message_that_only_waits_is_not_renewed(door: Door, working: Working) -> None:
    run = publish(door, lease=0.3 * SECOND)
    working.receive(run, active=False)
    threading.Event().wait(0.5)
    assert door.renewals == []

    working.active.append(run)

    wait_until(lambda: len(door.renewals) > 0)


def test_a_heartbeat_that_failed_comes_again_soon(
    door: Door, tracker: Tracker, working: Working, caplog: pytest.LogCaptureFixture
) -> None:
    run = publish(door, lease=0.9 * SECOND)
    assert tracker.begin(a_delivery(run)).wait(5)
    door.open.clear()
    working.receive(run)
    wait_until(lambda: "heartbeat failed" in caplog.text)
    door.open.set()

    wait_until(lambda: "answered again" in caplog.text)
    assert caplog.text.count("heartbeat failed") == 1


def test_what_the_store_does_not_answer_for_costs_no_other_its_heartbeat(
    door: Door, tracker: Tracker, working: Working
) -> None:
    runs = [publish(door, job, lease=0.3 * SECOND) for job in "abc"]
    for run in runs:
        assert tracker.begin(a_delivery(run)).wait(5)
    door.silent.add("b")

    working.receive(*runs)

    wait_until(lambda: {"a", "c"} <= {each.job for call in door.renewals for each in call})
    assert "b" not in {each.job for call in door.renewals for each in call}


def test_a_lease_that_was_lost_is_told_once(
    door: Door, tracker: Tracker, working: Working, caplog: pytest.LogCaptureFixture
) -> None:
    run = publish(door, lease=0.3 * SECOND)
    assert tracker.begin(a_delivery(run)).wait(5)
    working.receive(run)
    wait_until(lambda: len(door.renewals) >= 2)

    assert tracker.finish(a_delivery(run), RunState.SUCCESS).wait(5)
    seen = len(door.renewals)
    wait_until(lambda: len(door.renewals) >= seen + 5)

    assert caplog.text.count("lease lost while its task works on: job=job") == 1


def test_a_run_that_was_not_begun_yet_is_no_lease_that_was_lost(
    door: Door, working: Working, caplog: pytest.LogCaptureFixture
) -> None:
    working.receive(publish(door, lease=0.3 * SECOND))

    wait_until(lambda: len(door.renewals) >= 5)

    assert "lease lost" not in caplog.text
