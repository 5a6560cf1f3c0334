"""One fault is planted in a history that keeps every promise: it is found, under its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import lru_cache

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from anarchon.clock import to_millis
from anarchon.testing import Body, Evidence, Fault, Finding, Kind, Trouble, check
from tests.unit.checker.legal import PATIENCE, at, job, legal

EVERY = timedelta(seconds=60)
#: Nothing was wrong for so long before and after, so that no harm explains anything.
CALM = timedelta(seconds=70)

Plant = Callable[[Evidence, Body], Sequence[Body]]


@lru_cache(maxsize=64)
def history(seed: int, skip: bool) -> Evidence:
    # short bodies: each ends before the next slot, and keeps none from starting
    return legal(seed, skip=skip, length=900, longest_body=20)


def calm(evidence: Evidence) -> list[Body]:
    """Return bodies of whose time only one thing can be said: that they had to run."""
    moments = [t.start for t in evidence.troubles] + [t.end for t in evidence.troubles]
    for life in evidence.lives:
        moments += [life.start] + ([life.end] if life.end is not None else [])

    def is_calm(body: Body) -> bool:
        start, end = body.slot - CALM, body.slot + CALM
        return (
            body.attempt == 1
            and end < evidence.until
            and not any(start < moment < end for moment in moments)
            and not any(t.start < start and t.end > end for t in evidence.troubles)
            and all(
                b.slot == body.slot or abs(b.slot - body.slot) >= EVERY for b in evidence.bodies
            )
            and sum(b.slot == body.slot for b in evidence.bodies) == 1
        )

    return [body for body in evidence.bodies if is_calm(body)]


def judged(evidence: Evidence, bodies: Sequence[Body]) -> tuple[Finding, ...]:
    return check(replace(evidence, bodies=bodies), patience=PATIENCE).findings


def changed(evidence: Evidence, body: Body, **fields: object) -> list[Body]:
    return [replace(b, **fields) if b is body else b for b in evidence.bodies]  # type: ignore[arg-type]


def end_of(body: Body) -> datetime:
    assert body.ended is not None, "a calm body has ended"
    return body.ended


def dropped(evidence: Evidence, body: Body) -> Sequence[Body]:
    return [b for b in evidence.bodies if b is not body]


def started_late(evidence: Evidence, body: Body) -> Sequence[Body]:
    by = timedelta(seconds=2)
    return changed(evidence, body, started=body.started + by, ended=end_of(body) + by)


def claimed_again(evidence: Evidence, body: Body) -> Sequence[Body]:
    again = end_of(body) + timedelta(seconds=1)
    copy = replace(body, started=again, ended=again, fence=body.fence + 1)
    return [*evidence.bodies, copy]


def taken_over_for_nothing(evidence: Evidence, body: Body) -> Sequence[Body]:
    return [replace(b, attempt=2) for b in claimed_again(evidence, body)[-1:]] + list(
        evidence.bodies
    )


def failed_and_started_again(evidence: Evidence, body: Body) -> Sequence[Body]:
    again = claimed_again(evidence, body)[-1]
    return [*changed(evidence, body, failed=True), replace(again, attempt=2)]


def numbered_from_two(evidence: Evidence, body: Body) -> Sequence[Body]:
    return changed(evidence, body, attempt=2)


def beside_itself(evidence: Evidence, body: Body) -> Sequence[Body]:
    longer = replace(body, ended=body.started + timedelta(seconds=10))
    second = replace(
        body, started=body.started + timedelta(seconds=5), attempt=2, fence=body.fence + 1
    )
    return [*(longer if b is body else b for b in evidence.bodies), second]


def never_ending(evidence: Evidence, body: Body) -> Sequence[Body]:
    assume(any(b.started > body.slot + EVERY for b in evidence.bodies))
    return changed(evidence, body, ended=None)


def fenced_lower(evidence: Evidence, body: Body) -> Sequence[Body]:
    assume(any(b.started < body.started for b in evidence.bodies))
    return changed(evidence, body, fence=0)


def fenced_alike(evidence: Evidence, body: Body) -> Sequence[Body]:
    others = [b for b in evidence.bodies if b is not body]
    assume(others)
    return changed(evidence, body, fence=others[0].fence)


def invented(evidence: Evidence, body: Body) -> Sequence[Body]:
    slot = body.slot + timedelta(seconds=7)
    return [*evidence.bodies, replace(body, slot=slot, started=slot, ended=slot, fence=10**15)]


def ahead_of_its_slot(evidence: Evidence, body: Body) -> Sequence[Body]:
    early = body.slot - timedelta(seconds=1.5)
    return changed(evidence, body, started=early)


def by_a_stranger(evidence: Evidence, body: Body) -> Sequence[Body]:
    return changed(evidence, body, instance="nobody")


def of_another_job(evidence: Evidence, body: Body) -> Sequence[Body]:
    return changed(evidence, body, job="other")


def from_before_all(evidence: Evidence, body: Body) -> Sequence[Body]:
    assume(not any(b.slot == body.slot - EVERY * 100 for b in evidence.bodies))
    return [*evidence.bodies, replace(body, slot=body.slot - EVERY * 100, fence=body.fence + 1)]


def replayed(evidence: Evidence, body: Body) -> Sequence[Body]:
    """Start a slot when the next one is due, as who replays what it missed does."""
    next_up = body.slot + EVERY + timedelta(seconds=5)
    return changed(evidence, body, started=next_up, ended=next_up)


def early(evidence: Evidence, body: Body, after: float, freeze: float) -> Evidence:
    """Take a body over a second after a short freeze of its instance, ``after`` its claim."""
    since = body.started + timedelta(seconds=after)
    frozen = Trouble(Fault.FROZEN, since, since + timedelta(seconds=freeze), body.instance)
    first = replace(body, ended=since + timedelta(seconds=30))
    start = frozen.end + timedelta(seconds=1 if after > 1 else 0.7)
    fence = to_millis(start)
    second = replace(body, attempt=2, started=start, ended=start, fence=fence, instance="web-9")
    bodies = [*(first if b is body else b for b in evidence.bodies), second]
    lives = [*evidence.lives, replace(evidence.lives[0], instance="web-9", start=at(0), end=None)]
    hasty = [job(60, lease="3s", heartbeat="1s", overlap=one.overlap) for one in lives[0].jobs]
    return Evidence(
        [replace(life, jobs=hasty) for life in lives],
        bodies,
        [*evidence.troubles, frozen],
        evidence.until,
    )


PLANTS = [
    (dropped, Kind.MISSED),
    (started_late, Kind.LATE),
    (claimed_again, Kind.DOUBLED),
    (taken_over_for_nothing, Kind.DOUBLED),
    (failed_and_started_again, Kind.DOUBLED),
    (numbered_from_two, Kind.DOUBLED),
    (beside_itself, Kind.OVERLAP),
    (fenced_lower, Kind.FENCE),
    (fenced_alike, Kind.FENCE),
    (invented, Kind.PHANTOM),
    (ahead_of_its_slot, Kind.PHANTOM),
    (by_a_stranger, Kind.PHANTOM),
    (of_another_job, Kind.PHANTOM),
    (from_before_all, Kind.EXTRA),
    (replayed, Kind.LATE),
]


@pytest.mark.parametrize(
    ("plant", "kind"), PLANTS, ids=lambda value: getattr(value, "__name__", value)
)
@pytest.mark.parametrize("skip", [True, False], ids=["skip", "allow"])
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 40), pick=st.integers(0, 10**6))
def test_a_planted_fault_is_found_under_its_name(
    plant: Plant, kind: Kind, skip: bool, seed: int, pick: int
) -> None:
    evidence = history(seed, skip)
    bodies = calm(evidence)
    assume(bodies)
    body = bodies[pick % len(bodies)]

    findings = judged(evidence, plant(evidence, body))

    assert kind in {finding.kind for finding in findings}, (body, findings)


@pytest.mark.parametrize("skip", [True, False], ids=["skip", "allow"])
@pytest.mark.parametrize(
    ("after", "freeze"),
    [
        pytest.param(0.05, 0.05, id="0.8 s after the first body"),
        pytest.param(12.0, 0.1, id="1 s after a freeze of 0.1 s"),
    ],
)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 40), pick=st.integers(0, 10**6))
def test_a_takeover_of_a_live_lease_is_found_beside_a_short_freeze(
    skip: bool, after: float, freeze: float, seed: int, pick: int
) -> None:
    """G1, with the lease and the patience of a fleet under chaos."""
    evidence = history(seed, skip)
    bodies = calm(evidence)
    assume(bodies)
    body = bodies[pick % len(bodies)]

    findings = check(early(evidence, body, after, freeze), patience=timedelta(seconds=2)).findings

    kinds = {finding.kind for finding in findings if finding.slot == body.slot}
    assert {Kind.DOUBLED, Kind.OVERLAP} <= kinds, (body, findings)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 40), pick=st.integers(0, 10**6))
def test_a_body_that_goes_on_beside_the_next_slot_is_found_under_skip(seed, pick):
    """G3."""
    evidence = history(seed, True)
    bodies = calm(evidence)
    assume(bodies)

    findings = judged(evidence, never_ending(evidence, bodies[pick % len(bodies)]))

    assert Kind.OVERLAP in {finding.kind for finding in findings}


def test_a_trouble_before_its_slot_was_due_excuses_no_lower_fence():
    """In this history the store was away a while before the body in front of it started."""
    evidence = history(4, False)
    body = next(b for b in calm(evidence) if b.slot == at(540))

    findings = judged(evidence, changed(evidence, body, fence=0))

    assert {(finding.kind, finding.slot) for finding in findings} == {(Kind.FENCE, body.slot)}


@pytest.mark.parametrize("skip", [True, False], ids=["skip", "allow"])
def test_enough_of_these_histories_have_a_calm_body_to_plant_in(skip):
    assert sum(bool(calm(history(seed, skip))) for seed in range(40)) > 20


def test_a_job_that_nobody_declares_is_a_phantom():
    evidence = history(1, True)
    lives = [replace(life, jobs=[]) for life in evidence.lives]

    found = check(replace(evidence, lives=lives), patience=PATIENCE).findings

    assert {finding.kind for finding in found} == {Kind.PHANTOM}
    assert len(found) == len(evidence.bodies)
    assert job().name == "sync"
