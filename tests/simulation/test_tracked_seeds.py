"""Random bad days of tracked runs in virtual time: one seed is one run.

``python -m tests.simulation --tracked SEED`` replays one, ``FIRST LAST`` tries many.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime

import pytest

from anarchon import tracked
from anarchon.record import JobRecord, Run, Step
from anarchon.run import RunState
from anarchon.store import Begin, Renewal, Waiting
from tests.simulation.tracked_plans import TrackedPlan, TrackedReport, problems_of

#: Seeds of a plain run of the tests, and how many of them go into one test.
SEEDS, TOGETHER = 30, 10


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    """Leave out what tens of schedulers have to say about bad days."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def tried(seed: int) -> TrackedReport:
    report = TrackedPlan(seed).run_tracked()
    problems = problems_of(report)
    assert problems == [], f"replay it: python -m tests.simulation --tracked {seed}"
    return report


@pytest.mark.timeout(300)
@pytest.mark.parametrize("first", range(0, SEEDS, TOGETHER))
def test_no_seed_breaks_a_promise_of_tracked_runs(first: int) -> None:
    """G1, G2, G3, G4, G5, G12; and once all is well again every run ends as it should."""
    met = Counter[str]()
    for seed in range(first, first + TOGETHER):
        report = tried(seed)
        met["faults"] += report.faults.total()
        met["refused"] += report.refused
        met["started"] += len(report.done)
        met["retried"] += sum(done.message.retry > 0 for done in report.done)
        met["taken over"] += sum(done.message.ctx.attempt > 1 for done in report.done)
        met["expired"] += sum(a.state is RunState.EXPIRED for a in report.history)

    assert met["faults"] >= TOGETHER * 10
    assert met["started"] >= TOGETHER * 50
    assert all(met[rare] > 0 for rare in ("refused", "retried", "taken over", "expired")), met


def begins_what_was_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """A begin by token alone: whatever is delivered twice starts twice."""
    sound = tracked.begin

    def begin(record: JobRecord, asked: Begin, time: datetime) -> Step[bool]:
        run = record.runs.get(asked.slot)
        if run is not None and run.token == asked.token and not run.state.has_ended:
            waits = replace(run, state=RunState.QUEUED, nonce=None, retry=asked.retry)
            return sound(record.having(waits), asked, time)
        return sound(record, asked, time)

    monkeypatch.setattr(tracked, "begin", begin)


def begins_what_was_superseded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A begin without the token: the message of a former attempt starts the present one."""
    sound = tracked.begin

    def begin(record: JobRecord, asked: Begin, time: datetime) -> Step[bool]:
        run = record.runs.get(asked.slot)
        token = run.token if run is not None else None
        return sound(record, asked if token is None else replace(asked, token=token), time)

    monkeypatch.setattr(tracked, "begin", begin)


def queues_what_was_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mark that queues what a worker has begun already."""
    sound = tracked.mark

    def mark(record: JobRecord, asked: Renewal, waiting: Waiting, time: datetime) -> Step[bool]:
        run = record.runs.get(asked.slot)
        if run is not None and waiting.nonce is None and run.state is RunState.RUNNING:
            claimed = replace(run, state=RunState.CLAIMED, nonce=None, holder=None, deadline=time)
            return sound(record.having(claimed), asked, waiting, time)
        return sound(record, asked, waiting, time)

    monkeypatch.setattr(tracked, "mark", mark)


def takes_a_backlog_for_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait in the broker that counts for nothing."""
    monkeypatch.setattr(Run, "is_busy_at", Run.is_leased_at)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("flaw", "promise"),
    [
        (begins_what_was_begun, "G12"),
        (begins_what_was_superseded, "G4"),
        (queues_what_was_begun, "G4"),
        (takes_a_backlog_for_a_crash, "G1"),
    ],
)
def test_a_store_with_a_flaw_is_found_out(
    flaw: Callable[[pytest.MonkeyPatch], None], promise: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    flaw(monkeypatch)

    for seed in range(SEEDS):
        if any(found.startswith(promise) for found in problems_of(TrackedPlan(seed).run_tracked())):
            return
    pytest.fail("nobody noticed")


def test_one_seed_of_tracked_runs_is_one_run() -> None:
    def story(seed: int) -> list[tuple[object, ...]]:
        done = TrackedPlan(seed).run_tracked().done
        return [(d.message.ctx.slot, d.message.retry, d.worker, d.started, d.ended) for d in done]

    assert story(7) == story(7)
    assert story(7) != story(8)
