"""A judge that cries wolf is as bad as a blind one: what keeps every promise has no finding."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anarchon.testing import Fault, check
from tests.unit.checker.legal import PATIENCE, legal

SHAPES = [
    pytest.param({"skip": True}, id="skip"),
    pytest.param({"skip": False}, id="allow"),
    pytest.param({"skip": False, "publishes": True}, id="publish"),
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("every", [20, 60])
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**9))
def test_a_history_that_keeps_every_promise_has_no_finding(shape, every, seed):
    verdict = check(legal(seed, every=every, **shape), patience=PATIENCE)

    assert verdict.holds, str(verdict)


def test_these_histories_are_rich_enough_to_mean_something():
    """Of what could be mistaken for a broken promise, there is a lot in them."""
    takeovers = skipped = demanded = excused = 0
    faults: set[Fault] = set()
    for seed in range(60):
        evidence = legal(seed, every=20)
        verdict = check(evidence, patience=PATIENCE)
        takeovers += verdict.takeovers
        skipped += verdict.skipped
        demanded += verdict.demanded
        excused += len(verdict.excused)
        faults |= {trouble.fault for trouble in evidence.troubles}

    assert faults == {Fault.FROZEN, Fault.CUT, Fault.AWAY}
    assert takeovers > 15
    assert skipped > 100
    assert demanded > 600
    assert excused > 15
