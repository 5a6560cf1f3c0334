"""What changes at a moment changes at that very millisecond, on a clock that stands still.

Each answer is also held against that of the rules, by ``Pair``.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from anarchon.clock import MILLISECOND
from anarchon.run import Overlap, RunState
from anarchon.store import (
    FINGERPRINT_MEMORY,
    RETENTION,
    Finish,
    Mode,
    Outcome,
    Prune,
    Registration,
    Renewal,
    Waiting,
)
from anarchon_contract.leases.pair import ZERO, Pair
from anarchon_contract.leases.questions import (
    JOB,
    MINUTE,
    begin_of,
    claim_of,
    tracked_claim_of,
)

NOTHING = timedelta(0)


def claimed(pair: Pair, slot=ZERO, token="a", **options):
    (answer,) = pair.ask("claim", [claim_of(slot, token, **options)])
    return answer.outcome


def looked_at(pair: Pair, slot=ZERO, token="b"):
    return claimed(pair, slot, token, mode=Mode.TAKEOVER)


def renewed(pair: Pair, slot=ZERO, token="a"):
    (answer,) = pair.ask("renew", [Renewal(JOB, slot, token)])
    return answer


def finished(pair: Pair, slot=ZERO, token="a"):
    assert pair.ask("finish", [Finish(JOB, slot, token, RunState.SUCCESS)]) == (True,)


def pruned(pair: Pair, spare=NOTHING, keep=0):
    (answer,) = pair.ask("prune", [Prune(JOB, keep, spare)])
    return answer


def test_a_slot_is_due_from_its_moment_on(pair):
    pair.set_clock(ZERO - MILLISECOND)
    assert claimed(pair) is Outcome.NONE

    pair.set_clock(ZERO)
    assert claimed(pair) is Outcome.WON


def test_a_slot_is_late_once_more_time_has_gone_by_than_allowed(pair):
    pair.set_clock(ZERO + MINUTE + MILLISECOND)
    assert claimed(pair, within=MINUTE) is Outcome.LATE

    pair.set_clock(ZERO + MINUTE)
    assert claimed(pair, within=MINUTE) is Outcome.WON


def test_a_lease_lives_until_its_last_millisecond(pair):
    """G1"""
    claimed(pair, lease=MINUTE)

    pair.set_clock(ZERO + MINUTE - MILLISECOND)
    assert looked_at(pair) is Outcome.RUNNING

    pair.set_clock(ZERO + MINUTE)
    assert not renewed(pair)
    # its own token hears what any other hears
    assert claimed(pair) is Outcome.RUNNING
    assert looked_at(pair) is Outcome.WON


def test_a_lease_begins_with_the_work_of_what_waited(pair):
    """G6"""
    pair.ask("claim", [tracked_claim_of(ZERO, lease=MINUTE)])
    pair.ask("renew", [Renewal(JOB, ZERO, "a", waiting=Waiting())])
    pair.set_clock(ZERO + 2 * MINUTE)
    assert pair.ask("begin", [begin_of(ZERO)]) == (True,)

    pair.set_clock(ZERO + 3 * MINUTE - MILLISECOND)
    assert looked_at(pair) is Outcome.RUNNING
    pair.set_clock(ZERO + 3 * MINUTE)
    assert looked_at(pair) is Outcome.WON


def test_a_lease_is_set_anew_by_a_renewal(pair):
    claimed(pair, lease=MINUTE)

    pair.set_clock(ZERO + MINUTE - MILLISECOND)
    assert renewed(pair)

    pair.set_clock(ZERO + 2 * MINUTE - 2 * MILLISECOND)
    assert looked_at(pair) is Outcome.RUNNING
    pair.set_clock(ZERO + 2 * MINUTE - MILLISECOND)
    assert looked_at(pair) is Outcome.WON


@pytest.mark.parametrize("mode", Mode)
def test_a_lease_is_set_anew_by_a_claim_that_is_asked_again(pair, mode):
    """Whoever asks again trusts the lease from then on."""
    claimed(pair, lease=MINUTE)

    pair.set_clock(ZERO + MINUTE - MILLISECOND)
    assert claimed(pair, mode=mode) is Outcome.WON

    pair.set_clock(ZERO + 2 * MINUTE - 2 * MILLISECOND)
    assert looked_at(pair) is Outcome.RUNNING
    pair.set_clock(ZERO + 2 * MINUTE - MILLISECOND)
    assert looked_at(pair) is Outcome.WON


def test_a_run_keeps_others_from_starting_until_its_lease_lapses(pair):
    """G3"""
    claimed(pair, ZERO - MINUTE, lease=MINUTE)

    pair.set_clock(ZERO + MINUTE - MILLISECOND)
    assert claimed(pair, ZERO, "b") is Outcome.OVERLAP

    pair.set_clock(ZERO + MINUTE)
    assert claimed(pair, ZERO, "b") is Outcome.WON


def test_a_run_is_told_as_busy_until_its_lease_lapses(pair):
    claimed(pair, lease=MINUTE)

    busy = []
    for moment in (ZERO + MINUTE - MILLISECOND, ZERO + MINUTE):
        pair.set_clock(moment)
        (known,) = pair.ask("active", [Registration(JOB, "v1")])
        busy += [run.busy for run in known.unfinished]

    assert busy == [True, False]


def test_a_slot_of_the_millisecond_in_which_its_job_was_met_counts_as_past(pair):
    pair.ask("active", [Registration("other", "v1")])

    assert claimed(pair, job="other") is Outcome.DONE
    pair.set_clock(ZERO + MILLISECOND)
    assert claimed(pair, ZERO + MILLISECOND, job="other") is Outcome.WON


def test_a_first_claim_at_its_slot_is_in_time(pair):
    assert claimed(pair, job="other", within=NOTHING) is Outcome.WON


@pytest.mark.parametrize("part", [NOTHING, MILLISECOND / 2], ids=["whole", "and a half"])
def test_a_slot_is_spared_until_it_is_as_old_as_that(pair, part):
    spare = MINUTE + part
    claimed(pair)
    finished(pair)

    pair.set_clock(ZERO + MINUTE if part else ZERO + MINUTE - MILLISECOND)
    assert pruned(pair, spare) == 0

    pair.set_clock(ZERO + MINUTE + (MILLISECOND if part else NOTHING))
    assert pruned(pair, spare) == 1


def test_history_goes_once_it_is_a_month_old(pair):
    claimed(pair)
    finished(pair)

    pair.set_clock(ZERO + RETENTION - MILLISECOND)
    assert pruned(pair, keep=1000) == 0

    pair.set_clock(ZERO + RETENTION)
    assert pruned(pair, keep=1000) == 1


def test_what_is_unfinished_ends_as_lost_once_it_is_older_than_a_month(pair):
    claimed(pair, overlap=Overlap.ALLOW)

    states = []
    for moment in (ZERO + RETENTION, ZERO + RETENTION + MILLISECOND):
        pair.set_clock(moment)
        pruned(pair, keep=1000)
        states += [attempt.state for attempt in pair.ask("history", [JOB], 10)]

    assert states == [RunState.RUNNING, RunState.LOST]


@pytest.mark.parametrize(
    ("age", "known"), [(FINGERPRINT_MEMORY - MILLISECOND, ["v1"]), (FINGERPRINT_MEMORY, [])]
)
def test_a_fingerprint_is_remembered_for_a_time(pair, age, known):
    pair.set_clock(ZERO + age)

    (answer,) = pair.ask("active", [Registration(JOB, "v2")])

    assert [fingerprint for fingerprint, _ in answer.others] == known


def test_a_fingerprint_that_was_forgotten_is_seen_first_when_it_comes_back(pair):
    """To come back to the old text of a schedule is a new edition of it."""
    pair.set_clock(ZERO + FINGERPRINT_MEMORY)
    pair.ask("active", [Registration(JOB, "v2")])

    (answer,) = pair.ask("active", [Registration(JOB, "v1")])

    assert answer.first_seen == ZERO + FINGERPRINT_MEMORY
