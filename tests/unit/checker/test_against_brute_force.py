"""What is fast is compared with what is plainly right, on evidence of all kinds, legal or not."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from anarchon.testing import Body, Evidence, Fault, Kind, Life, Trouble, check
from anarchon.testing.attempts import judge_attempts
from anarchon.testing.busy import Busy
from anarchon.testing.demands import Demands
from anarchon.testing.docket import Docket
from anarchon.testing.harms import BACK, Harms
from anarchon.testing.spans import NEVER, Span, Spans, joined, without
from tests.unit.checker.legal import PATIENCE, at, job

UNTIL = 240
EVERY = 20
moments = st.integers(0, UNTIL * 4).map(lambda quarter: quarter / 4)
pieces = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 10)).map(lambda p: (at(p[0]), at(p[0] + p[1]))),
    max_size=8,
)


@given(pieces, st.integers(0, 40), st.integers(0, 10))
def test_spans_that_touch_are_those_with_a_moment_in_common(some, start, length):
    spans = Spans(Span(a, b, number) for number, (a, b) in enumerate(some))
    first, last = at(start), at(start + length)
    plain = [n for n, (a, b) in enumerate(some) if a <= last and b >= first]

    assert sorted(span.what for span in spans.touching(first, last)) == plain
    longest = spans.longest_touching(first, last)
    assert (longest is not None) == bool(plain)
    assert longest is None or longest.end == max(some[n][1] for n in plain)


@given(pieces, st.integers(0, 40), st.integers(0, 10))
def test_a_span_covers_what_lies_between_its_start_and_its_end(some, start, length):
    spans = Spans(Span(a, b, number) for number, (a, b) in enumerate(some))
    first, last = at(start), at(start + length)
    plain = any(a < first and b >= last for a, b in some)

    covering = spans.covering(first, last)

    assert (covering is not None) == plain
    assert covering is None or (covering.start < first and covering.end >= last)


@given(pieces, st.integers(0, 40), st.integers(1, 10))
def test_what_is_left_of_a_span_is_what_nobody_took(some, start, length):
    left = without(at(start), at(start + length), joined(some))

    for tick in range(50 * 2):
        moment = at(tick / 2 + 0.25)
        inside = at(start) < moment < at(start + length)
        taken = any(a <= moment <= b for a, b in some)
        assert any(a <= moment <= b for a, b in left) == (inside and not taken)


@st.composite
def evidences(draw: st.DrawFn) -> Evidence:
    overlap = draw(st.sampled_from(["skip", "allow"]))
    declared = job(EVERY, overlap=overlap)
    lives, troubles, bodies = [], [], []
    for number in range(draw(st.integers(1, 3))):
        start, length = draw(moments), draw(st.one_of(st.none(), moments))
        end = None if length is None else at(min(start + length, UNTIL))
        lives.append(Life(f"i{number}", [declared], at(start), end, draw(st.booleans())))
    names = [life.instance for life in lives]
    for _ in range(draw(st.integers(0, 3))):
        fault = draw(st.sampled_from(Fault))
        whose = st.none() if fault in (Fault.AWAY, Fault.FORGOT) else st.sampled_from(names)
        start = draw(moments)
        length = draw(st.integers(0, 60))
        troubles.append(Trouble(fault, at(start), at(start + length), draw(whose)))
    for _ in range(draw(st.integers(0, 10))):
        slot = EVERY * draw(st.integers(0, UNTIL // EVERY))
        started = at(slot + draw(st.integers(0, 80)) / 4)
        length = draw(st.one_of(st.none(), st.integers(0, 120)))
        bodies.append(
            Body(
                "sync",
                at(slot),
                draw(st.integers(1, 3)),
                draw(st.integers(1, 9)),
                draw(st.sampled_from(names)),
                started,
                None if length is None else started + timedelta(seconds=length / 4),
                length is not None and draw(st.booleans()),
            )
        )
    return Evidence(lives, bodies, troubles, at(UNTIL))


def docket_of(evidence: Evidence) -> Docket:
    return Docket("sync", evidence, Harms(evidence), PATIENCE)


def plainly_able(evidence: Evidence, life: Life, start: datetime, end: datetime) -> bool:
    if not (life.start < start and end <= min(life.end or evidence.until, evidence.until)):
        return False
    return not any(
        trouble.start < end and trouble.end + BACK > start
        for trouble in evidence.troubles
        if (trouble.instance == life.instance and trouble.fault is not Fault.CLOCK)
        or trouble.instance is None
    )


def harms_near(evidence: Evidence, start: datetime, end: datetime) -> bool:
    ends = [life.end for life in evidence.lives if life.end is not None]
    return any(start <= end_ <= end for end_ in ends) or any(
        trouble.start <= end and trouble.end >= start for trouble in evidence.troubles
    )


@settings(max_examples=80, deadline=None)
@given(evidences())
def test_a_slot_is_owed_at_once_if_one_was_able_all_the_while_and_nobody_was_harmed(evidence):
    demands = Demands(docket_of(evidence))

    for number in range(1, UNTIL // EVERY + 1):
        slot = at(number * EVERY)
        due = slot + timedelta(seconds=0.5) + PATIENCE
        # the store's clock may be off by a patience
        early = slot - PATIENCE
        if not any(plainly_able(evidence, life, early, due) for life in evidence.lives):
            continue
        if harms_near(evidence, slot - BACK - PATIENCE, due):
            continue
        assert demands.owed[slot].by <= due


@settings(max_examples=80, deadline=None)
@given(evidences())
def test_no_slot_is_owed_that_nobody_was_able_to_start_within_reach(evidence):
    """Whoever owes one is able at some moment from the slot to the end of what it is given."""
    for slot, owed in Demands(docket_of(evidence)).owed.items():
        ticks = int((owed.by - slot).total_seconds() * 4) + 1
        moments = [slot + timedelta(seconds=n / 4) for n in range(ticks)]
        step = timedelta(seconds=0.2)
        assert any(
            plainly_able(evidence, life, moment, moment + step)
            for life in evidence.lives
            for moment in moments
            if moment + step <= owed.by
        )


@settings(max_examples=80, deadline=None)
@given(evidences())
def test_each_owed_slot_that_is_missing_or_late_is_found_unless_another_run_was_busy(evidence):
    docket = docket_of(evidence)
    owed, busy = Demands(docket).owed, Busy(docket)
    expected: Counter[tuple[datetime, Kind]] = Counter()
    for slot, what in owed.items():
        starts = [b.started for b in evidence.bodies if b.slot == slot]
        if any(start <= what.by for start in starts):
            continue
        others = [run.what for run in busy._runs if run.start <= what.by and run.end >= slot]
        if any(run.slot != slot for run in others):
            continue
        expected[slot, Kind.LATE if starts else Kind.MISSED] += 1

    findings = check(evidence, patience=PATIENCE).findings
    found = {(f.slot, f.kind) for f in findings if f.kind in (Kind.LATE, Kind.MISSED)}

    assert set(expected) <= found
    told = {f.slot for f in findings if f.detail.startswith(("nobody started", "due by"))}
    assert told == {slot for slot, _ in expected}


def over(evidence: Evidence, body: Body) -> datetime:
    """Return when a body did nothing any more; those of a stopped instance within 30 s."""
    if body.ended is not None:
        return body.ended
    life = next(life for life in evidence.lives if life.instance == body.instance)
    there = life.start - PATIENCE <= body.started and (
        life.end is None or body.started <= life.end + PATIENCE
    )
    if not there or life.end is None:
        return NEVER
    return life.end if life.killed else life.end + timedelta(seconds=30)


@settings(max_examples=100, deadline=None)
@given(evidences())
def test_bodies_beside_each_other_are_all_found_or_excused(evidence):
    bodies = sorted(evidence.bodies, key=lambda body: body.started)
    skip = evidence.lives[0].jobs[0].overlap == "skip"
    expected: Counter[datetime] = Counter()
    for number, first in enumerate(bodies):
        # each body is told of with the first that starts beside it, of its slot and of its job
        beside = [b for b in bodies[number + 1 :] if over(evidence, first) > b.started]
        for of_slot in (True, False):
            if not of_slot and not skip:
                continue
            same = [b for b in beside if (b.slot == first.slot) is of_slot]
            expected.update([same[0].slot] if same else [])

    findings, excused = judge_attempts(docket_of(evidence))
    told = Counter(f.slot for f in (*findings, *excused) if f.kind is Kind.OVERLAP)

    if all(_is_there(evidence, body) for body in bodies):
        assert told == expected


def _is_there(evidence: Evidence, body: Body) -> bool:
    return docket_of(evidence).life_of(body) is not None


@settings(max_examples=100, deadline=None)
@given(evidences())
def test_a_fence_that_goes_back_is_found_as_by_comparing_each_with_each(evidence):
    docket = docket_of(evidence)
    bodies = docket.bodies
    expected = set()
    for second in bodies:
        for first in bodies:
            claimed = first.started + PATIENCE
            if docket.skips:
                claimed = min(claimed, over(evidence, first))
            before = claimed <= second.started and first is not second
            later = first.slot == second.slot and first.attempt < second.attempt
            if first.fence > second.fence and (before or later):
                expected.add((second.slot, second.started))

    findings, excused = judge_attempts(docket)
    told = {
        f.slot for f in (*findings, *excused) if f.kind is Kind.FENCE and "twice" not in f.detail
    }

    assert told == {slot for slot, _ in expected}


@settings(max_examples=100, deadline=None)
@given(evidences())
def test_a_fence_that_two_bodies_share_is_found(evidence):
    bodies = docket_of(evidence).bodies
    shared = any(
        first.fence == second.fence
        and (first.slot, first.attempt, first.instance)
        != (second.slot, second.attempt, second.instance)
        for first in bodies
        for second in bodies
    )

    findings, excused = judge_attempts(docket_of(evidence))

    assert any("one fence twice" in f.detail for f in (*findings, *excused)) == shared
