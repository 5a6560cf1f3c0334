"""A run that nobody began by its start deadline expires, at that very millisecond.

On a clock that stands still, and each answer is also held against that of the rules, by ``Pair``.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from anarchon.clock import MILLISECOND
from anarchon.run import RunState
from anarchon.store import (
    RETENTION,
    Finish,
    Mode,
    Outcome,
    Prune,
    Registration,
    Release,
    Renewal,
    Waiting,
)
from anarchon_contract.leases.pair import ZERO, Pair
from anarchon_contract.leases.questions import DAY, HOUR, JOB, MINUTE, begin_of, tracked_claim_of

DEADLINE = ZERO + HOUR


def claimed(pair: Pair, slot=ZERO, token="a", **options):
    (answer,) = pair.ask("claim", [tracked_claim_of(slot, token, within=DAY, **options)])
    return answer.outcome


def look_at(pair: Pair, token="b"):
    return claimed(pair, ZERO, token, mode=Mode.TAKEOVER)


def marked(pair: Pair, waiting=None):
    (answer,) = pair.ask("renew", [Renewal(JOB, ZERO, "a", waiting=waiting or Waiting())])
    return answer


def begun(pair: Pair, token="a", nonce="n", retry=0):
    (answer,) = pair.ask("begin", [begin_of(ZERO, token, nonce, retry=retry)])
    return answer


def states(pair: Pair):
    return [attempt.state for attempt in pair.ask("history", [JOB], 10)]


@pytest.mark.parametrize("queued", [False, True])
def test_a_run_is_begun_until_right_before_its_start_deadline(pair, queued):
    claimed(pair, lease=DAY)
    if queued:
        marked(pair)

    pair.set_clock(DEADLINE)
    assert not begun(pair)
    pair.set_clock(DEADLINE - MILLISECOND)
    assert begun(pair)


def test_a_delivery_hears_the_same_after_the_start_deadline(pair):
    claimed(pair)
    begun(pair)

    pair.set_clock(DEADLINE + HOUR)
    assert begun(pair)
    assert begun(pair, nonce="m", retry=1)


def test_a_slot_is_late_once_its_work_may_not_be_begun(pair):
    pair.set_clock(DEADLINE)
    assert claimed(pair) is Outcome.LATE

    pair.set_clock(DEADLINE - MILLISECOND)
    assert claimed(pair) is Outcome.WON


@pytest.mark.parametrize("mode", list(Mode))
def test_what_waits_is_busy_until_its_start_deadline_and_then_expires(pair, mode):
    """G3, G12"""
    claimed(pair)
    marked(pair)

    pair.set_clock(DEADLINE - MILLISECOND)
    assert look_at(pair) is Outcome.RUNNING
    assert claimed(pair, DEADLINE - MILLISECOND, "c") is Outcome.OVERLAP
    pair.set_clock(DEADLINE)
    ((known),) = pair.ask("active", [Registration(JOB, "v1")])
    assert [run.busy for run in known.unfinished] == [False]

    assert claimed(pair, ZERO, "b", mode=mode) is Outcome.DONE
    assert states(pair)[-1] is RunState.EXPIRED
    assert not begun(pair)
    assert look_at(pair) is Outcome.DONE


def test_a_claimed_run_that_lapsed_expires_at_its_start_deadline(pair):
    """G12: its message, if it was sent, would not be begun."""
    claimed(pair)
    pair.set_clock(DEADLINE)

    assert look_at(pair) is Outcome.DONE
    assert states(pair) == [RunState.EXPIRED]


def test_a_live_lease_outlives_the_start_deadline(pair):
    """Who publishes may still be at it, and ends the run by itself."""
    claimed(pair, lease=DAY)
    pair.set_clock(DEADLINE)

    assert look_at(pair) is Outcome.RUNNING
    assert claimed(pair) is Outcome.WON
    assert pair.ask("finish", [Finish(JOB, ZERO, "a", RunState.FAILED)]) == (True,)


def test_a_newer_slot_ends_what_has_expired(pair):
    """G9"""
    claimed(pair)
    marked(pair)
    pair.set_clock(DEADLINE)

    assert claimed(pair, DEADLINE, "c") is Outcome.WON
    assert states(pair) == [RunState.CLAIMED, RunState.EXPIRED]
    assert not begun(pair)


def test_the_attempt_of_a_released_run_that_expires_stays_interrupted(pair):
    claimed(pair)
    assert pair.ask("release", [Release(JOB, ZERO, "a", False)]) == (True,)
    pair.set_clock(DEADLINE)

    assert look_at(pair) is Outcome.DONE
    assert states(pair) == [RunState.INTERRUPTED]


def test_a_retry_has_a_start_deadline_of_its_own_after_its_countdown(pair):
    claimed(pair)
    begun(pair)
    pair.set_clock(DEADLINE + HOUR)
    # a countdown may have a part of a millisecond, and no store keeps it
    assert marked(pair, Waiting("n", 1, MINUTE + timedelta(microseconds=1500)))
    deadline = DEADLINE + HOUR + MINUTE + MILLISECOND + HOUR

    pair.set_clock(deadline)
    assert not begun(pair, nonce="m", retry=1)
    pair.set_clock(deadline - MILLISECOND)
    assert look_at(pair) is Outcome.RUNNING
    assert begun(pair, nonce="m", retry=1)


def test_an_attempt_after_one_that_was_begun_has_its_time_anew(pair):
    """G6: a worker may die long after the start deadline of what it began in time."""
    claimed(pair)
    begun(pair)
    pair.set_clock(DEADLINE + HOUR)
    assert look_at(pair) is Outcome.WON

    pair.set_clock(DEADLINE + 2 * HOUR)
    assert not begun(pair, "b")
    pair.set_clock(DEADLINE + 2 * HOUR - MILLISECOND)
    assert begun(pair, "b")


def test_an_attempt_after_one_that_nobody_began_has_no_more_time(pair):
    claimed(pair)
    pair.set_clock(ZERO + MINUTE)
    assert look_at(pair) is Outcome.WON

    pair.set_clock(DEADLINE)
    assert not begun(pair, "b")
    pair.set_clock(DEADLINE - MILLISECOND)
    assert begun(pair, "b")


def test_what_expired_long_ago_and_nobody_asked_for_ends_as_expired(pair):
    claimed(pair)
    marked(pair)
    prune = [Prune(JOB, 1000, timedelta(0))]

    pair.set_clock(ZERO + RETENTION)
    pair.ask("prune", prune)
    assert states(pair) == [RunState.QUEUED]
    pair.set_clock(ZERO + RETENTION + MILLISECOND)
    pair.ask("prune", prune)
    assert states(pair) == [RunState.EXPIRED]


def test_what_was_begun_and_then_lapsed_long_ago_ends_as_lost(pair):
    claimed(pair)
    begun(pair)

    pair.set_clock(ZERO + RETENTION + MILLISECOND)
    pair.ask("prune", [Prune(JOB, 1000, timedelta(0))])
    assert states(pair) == [RunState.LOST]


def test_whoever_wins_hears_until_when_the_work_may_be_begun(pair):
    (won,) = pair.ask("claim", [tracked_claim_of(ZERO, "a", within=DAY)])
    (again,) = pair.ask("claim", [tracked_claim_of(ZERO, "a", within=DAY)])
    (loses,) = pair.ask("claim", [tracked_claim_of(ZERO, "b", within=DAY)])
    pair.ask("begin", [begin_of(ZERO)])
    pair.set_clock(ZERO + DAY)
    (takes_over,) = pair.ask("claim", [tracked_claim_of(ZERO, "b", mode=Mode.TAKEOVER)])

    assert won.start_by == again.start_by == DEADLINE
    assert loses.start_by is None
    # it was begun once, so the time counts anew
    assert takes_over.start_by == ZERO + DAY + HOUR
