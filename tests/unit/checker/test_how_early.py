"""How early a run may be another's: no bound of that gets longer by patience."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from anarchon.testing import Body, Evidence, Fault, Kind, Life, Trouble, Verdict, check
from tests.unit.checker.legal import PATIENCE, at, job
from tests.unit.checker.small import body, found

HASTY = job(10, lease="3s", heartbeat="1s")
"""What leases are like under chaos; a patience is then most of a lease."""


def judge_hasty(bodies: Sequence[Body], *troubles: Trouble, killed: float | None = None) -> Verdict:
    ended = None if killed is None else at(killed)
    lives = [Life("a", [HASTY], at(0), ended, killed is not None), Life("b", [HASTY], at(0))]
    evidence = Evidence(lives, bodies, troubles, at(19))
    return check(evidence, patience=timedelta(seconds=2))


def frozen(since: float, until: float) -> Trouble:
    return Trouble(Fault.FROZEN, at(since), at(until), "a")


TWICE = [(Kind.DOUBLED, at(10))]
TWO_AT_ONCE = [*TWICE, (Kind.OVERLAP, at(10))]


def test_patience_lets_no_lease_lapse_early_beside_a_freeze():
    """G1: of the claim, and of the last renewal before a harm, a whole lease is to pass."""

    def then(ended: float, second: float, freeze: Trouble) -> Verdict:
        first = body(10, "a", 10.1, ended)
        return judge_hasty([first, body(10, "b", second, second + 0.1, attempt=2)], freeze)

    assert found(then(18, 10.9, frozen(10.3, 10.35))) == TWO_AT_ONCE
    assert found(then(18, 13.0, frozen(10.3, 10.35))) == TWO_AT_ONCE
    assert then(18, 13.15, frozen(10.3, 15)).holds
    # renewed until a heartbeat and a half before the freeze: at 13.5
    assert found(then(18, 16.1, frozen(15, 15.1))) == TWO_AT_ONCE
    assert found(then(18, 16.45, frozen(15, 17))) == TWO_AT_ONCE
    assert then(18, 16.55, frozen(15, 18)).holds


def test_only_a_body_that_had_ended_may_have_been_given_back_a_margin_before_its_lease_lapses():
    """G1."""

    def then(ended: float, second: float) -> Verdict:
        first = body(10, "a", 10.1, ended, failed=True)
        takes = body(10, "b", second, second + 0.1, attempt=2)
        return judge_hasty([first, takes], frozen(10.2, 12.85))

    assert then(12.86, 12.9).holds
    assert found(then(12.7, 12.72)) == TWICE
    assert found(then(13.5, 12.9)) == TWO_AT_ONCE


def test_whoever_is_killed_gives_nothing_back():
    """G1."""

    def then(second: float) -> Verdict:
        first = body(10, "a", 10.1, 10.2, failed=True)
        takes = body(10, "b", second, second + 0.1, attempt=2)
        return judge_hasty([first, takes], killed=10.21)

    assert found(then(12.9)) == TWICE
    assert then(13.15).holds


def test_a_claim_is_as_old_as_its_fence_says_however_late_its_body_starts():
    """A starved process writes late that it began; the store's time of its claim does not lie."""
    freeze = frozen(10.2, 16)

    def then(first: Body, second: Body) -> Verdict:
        return judge_hasty([first, second], freeze)

    slow = body(10, "a", 11.5, 18, fence=10.1)
    assert then(slow, body(10, "b", 13.2, 14, attempt=2)).holds
    hidden = body(10, "b", 13.2, 14, attempt=2, fence=12.5)
    assert found(then(slow, hidden)) == TWO_AT_ONCE
    # a fence that is no time says nothing, and a start may be a patience late
    unknown = Body("sync", at(10), 1, 7, "a", at(11.5), at(18))
    assert then(unknown, body(10, "b", 12.6, 14, attempt=2)).holds
    assert found(then(unknown, body(10, "b", 12.4, 14, attempt=2))) == TWO_AT_ONCE


def test_troubles_that_follow_each_other_keep_a_lease_from_being_renewed():
    """The first cost a renewal, and the next came before it was tried again."""
    patient = job(100, lease="60s", heartbeat="5s")
    lives = [Life("a", [patient], at(0)), Life("b", [patient], at(0))]
    first = body(100, "a", 100.1, 190)
    takes = body(100, "b", 160.2, 161, attempt=2)
    cuts = [Trouble(Fault.CUT, at(s), at(s + 4), "a") for s in range(101, 165, 6)]

    def then(troubles: Sequence[Trouble]) -> Verdict:
        return check(Evidence(lives, [first, takes], troubles, at(195)), patience=PATIENCE)

    assert then(cuts).holds
    assert found(then(cuts[:2])) == [(Kind.DOUBLED, at(100)), (Kind.OVERLAP, at(100))]


def test_whoever_dies_right_after_a_cut_may_not_have_renewed_in_between():
    patient = job(60, lease="15s", heartbeat="3s")
    lives = [Life("a", [patient], at(0), at(66.8), killed=True), Life("b", [patient], at(0))]
    cut = Trouble(Fault.CUT, at(60.2), at(66.3), "a")

    def then(second: float, *troubles: Trouble) -> Verdict:
        bodies = [body(60, "a", 60.0, None), body(60, "b", second, second + 1, attempt=2)]
        return check(Evidence(lives, bodies, troubles, at(110)), patience=timedelta(seconds=1))

    assert then(76.9, cut).holds
    assert found(then(74.9, cut)) == [(Kind.DOUBLED, at(60))]
    assert found(then(76.9)) == [(Kind.DOUBLED, at(60))]
