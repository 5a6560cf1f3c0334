"""The rules as pure functions: what no store can be asked without waiting for hours."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from anarchon import rules
from anarchon.clock import to_millis
from anarchon.record import JobRecord, Run, Seen, Step
from anarchon.run import Overlap, RunState
from anarchon.store import (
    FINGERPRINT_MEMORY,
    RETENTION,
    Claim,
    Finish,
    Mode,
    Outcome,
    Prune,
    Registration,
    Release,
    Renewal,
    Terms,
)

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
SLOT = NOW - timedelta(minutes=1)
LEASE = timedelta(seconds=15)
TICK = timedelta(microseconds=1)
MILLISECOND = timedelta(milliseconds=1)
TERMS = Terms(LEASE, Overlap.SKIP, 3, RunState.RUNNING)
EMPTY = JobRecord(floor=NOW - timedelta(days=365))


def _claim(token="a", slot=SLOT, mode=Mode.SCHEDULED, terms=TERMS, within=timedelta(minutes=5)):
    return Claim("sync", slot, token, mode, "web-1", terms, within)


def _run(slot=SLOT, state=RunState.RUNNING, **other) -> Run:
    kept = {
        "slot": slot,
        "state": state,
        "terms": TERMS,
        "attempt": 1,
        "lapses": 0,
        "token": "a",
        "expires": NOW + LEASE,
        "instance": "web-1",
        "fence": 7,
        "started": slot,
    }
    return Run(**{**kept, **other})


def _record(*runs: Run, **other) -> JobRecord:
    return replace(EMPTY, runs={run.slot: run for run in runs}, **other)


def test_a_record_begins_at_a_whole_millisecond():
    record = JobRecord.made_by(Registration("job", "v1"), NOW + timedelta(microseconds=1999))

    assert record.floor == NOW + timedelta(milliseconds=1)
    assert (record.fence, record.seen, record.runs) == (0, {}, {})


def test_a_lease_lapses_at_its_very_end():
    run = _run(expires=NOW + LEASE)

    assert run.is_busy_at(NOW + LEASE - TICK)
    assert not run.is_busy_at(NOW + LEASE)


def test_a_run_that_ended_is_never_busy():
    assert not _run(state=RunState.SUCCESS, expires=NOW + LEASE).is_busy_at(NOW)


def test_a_lease_lasts_from_the_time_of_the_claim():
    step = rules.claim(EMPTY, _claim(), NOW)

    assert step.record.runs[SLOT].expires == NOW + LEASE


def test_asking_again_sets_the_lease_anew():
    won = rules.claim(EMPTY, _claim(), NOW).record

    again = rules.claim(won, _claim(), NOW + LEASE - TICK)

    assert again.answer.outcome is Outcome.WON
    assert again.record.runs[SLOT].expires == NOW + 2 * LEASE - TICK
    assert again.attempts == ()


def test_a_renewal_sets_the_lease_anew_to_the_length_of_the_run():
    record = _record(_run(terms=replace(TERMS, lease=timedelta(seconds=40))))

    step = rules.renew(record, Renewal("sync", SLOT, "a"), NOW)

    assert step.answer
    assert step.record.runs[SLOT].expires == NOW + timedelta(seconds=40)


def test_a_renewal_at_the_very_end_of_the_lease_is_too_late():
    step = rules.renew(_record(_run()), Renewal("sync", SLOT, "a"), NOW + LEASE)

    assert not step.answer


def test_a_claim_at_its_slot_wins():
    assert rules.claim(EMPTY, _claim(), SLOT).answer.outcome is Outcome.WON


def test_a_claim_a_tick_before_its_slot_hears_none():
    assert rules.claim(EMPTY, _claim(), SLOT - TICK).answer.outcome is Outcome.NONE


def test_a_claim_at_the_last_moment_allowed_wins():
    asked = _claim(within=timedelta(minutes=1))

    assert rules.claim(EMPTY, asked, SLOT + timedelta(minutes=1)).answer.outcome is Outcome.WON


def test_a_claim_a_tick_later_than_allowed_is_late():
    asked = _claim(within=timedelta(minutes=1))
    time = SLOT + timedelta(minutes=1) + TICK

    assert rules.claim(EMPTY, asked, time).answer.outcome is Outcome.LATE


def test_a_slot_at_the_floor_is_done_before_anything_else_is_asked():
    record = replace(EMPTY, floor=SLOT)

    for mode in Mode:
        step = rules.claim(record, _claim(mode=mode, within=timedelta(0)), NOW)
        assert step.answer.outcome is Outcome.DONE
        assert step.record is record


def test_the_fence_follows_the_last_one_where_that_is_larger_than_the_time():
    """G5"""
    ahead = to_millis(NOW) + 1000

    step = rules.claim(replace(EMPTY, fence=ahead), _claim(), NOW)

    assert step.answer.fence == step.record.fence == ahead + 1


def test_the_fence_is_the_time_where_the_record_is_new():
    """G5: it grows even after the store lost the record."""
    assert rules.claim(EMPTY, _claim(), NOW).answer.fence == to_millis(NOW)


def test_a_clock_set_back_does_not_set_the_fence_back():
    """G5"""
    first = rules.claim(EMPTY, _claim(), NOW)
    released = rules.release(first.record, Release("sync", SLOT, "a"), NOW).record

    second = rules.claim(released, _claim("b", mode=Mode.TAKEOVER), NOW - timedelta(hours=1))

    assert second.answer.fence == first.answer.fence + 1


def test_what_changes_nothing_returns_the_very_same_record():
    """Stores write by it: losing costs no write."""
    record = _record(_run(), _run(SLOT - timedelta(minutes=1), RunState.SUCCESS, token="x"))
    before = SLOT - timedelta(minutes=1)
    steps: list[Step[Any]] = [
        rules.claim(record, _claim("b"), NOW),
        rules.claim(record, _claim("b", mode=Mode.TAKEOVER), NOW),
        rules.claim(record, _claim("b", slot=before), NOW),
        rules.claim(record, _claim("b", slot=SLOT + MILLISECOND, mode=Mode.TAKEOVER), NOW),
        rules.renew(record, Renewal("sync", SLOT, "b"), NOW),
        rules.finish(record, Finish("sync", SLOT, "b", RunState.SUCCESS), NOW),
        rules.finish(record, Finish("sync", before, "x", RunState.SUCCESS), NOW),
        rules.release(record, Release("sync", SLOT, "b"), NOW),
        rules.forget("sync", record, NOW),
        rules.prune(record, before - MILLISECOND),
    ]

    assert [step.record is record for step in steps] == [True] * len(steps)
    assert [step.attempts for step in steps] == [()] * len(steps)


def test_a_lapse_is_counted_when_the_run_is_taken_over():
    lapsed = _record(_run(expires=NOW, lapses=1))

    taken = rules.claim(lapsed, _claim("b", mode=Mode.TAKEOVER), NOW).record.runs[SLOT]

    assert (taken.attempt, taken.lapses) == (2, 2)


def test_a_release_is_not_counted_as_a_lapse():
    released = rules.release(_record(_run(lapses=1)), Release("sync", SLOT, "a"), NOW).record

    taken = rules.claim(released, _claim("b", mode=Mode.TAKEOVER), NOW).record.runs[SLOT]

    assert (taken.attempt, taken.lapses, taken.spent) == (2, 1, ("a",))


def _register(record: JobRecord, fingerprint: str, time: datetime = NOW):
    return rules.register(record, Registration("sync", fingerprint), time)


def test_a_fingerprint_is_remembered_right_up_to_the_limit():
    record = replace(EMPTY, seen={"v1": Seen(SLOT, NOW - FINGERPRINT_MEMORY + TICK)})

    step = _register(record, "v2")

    assert step.answer.others == (("v1", NOW - FINGERPRINT_MEMORY + TICK),)
    assert set(step.record.seen) == {"v1", "v2"}


def test_a_fingerprint_is_forgotten_at_the_limit():
    record = replace(EMPTY, seen={"v1": Seen(SLOT, NOW - FINGERPRINT_MEMORY)})

    step = _register(record, "v2")

    assert step.answer.others == ()
    assert set(step.record.seen) == {"v2"}
    assert _register(step.record, "v1").answer.first_seen == NOW


def test_a_fingerprint_that_is_registered_itself_is_never_forgotten():
    long_ago = NOW - timedelta(days=90)
    record = replace(EMPTY, seen={"v1": Seen(long_ago, long_ago)})

    step = _register(record, "v1")

    assert step.answer.first_seen == long_ago
    assert step.record.seen == {"v1": Seen(long_ago, NOW)}


def test_instances_that_register_every_half_of_the_memory_keep_both_alive():
    record = _register(EMPTY, "v1").record
    for turn in range(1, 20):
        time = NOW + turn * FINGERPRINT_MEMORY / 2
        record = _register(_register(record, "v2", time).record, "v1", time).record

    assert _register(record, "v1", time).answer.first_seen == NOW
    assert {name for name, _ in _register(record, "v3", time).answer.others} == {"v1", "v2"}


def test_skipped_slots_and_ended_runs_are_not_told_as_unfinished():
    record = _record(
        _run(SLOT - 3 * MILLISECOND, RunState.SKIPPED, token=None, expires=None),
        _run(SLOT - 2 * MILLISECOND, RunState.LOST, token=None, expires=None),
        _run(SLOT, RunState.CLAIMED),
    )

    assert [run.slot for run in _register(record, "v1").answer.unfinished] == [SLOT]


@pytest.mark.parametrize(
    ("surplus", "spare", "up_to"),
    [
        (None, timedelta(0), NOW - RETENTION),
        (SLOT, timedelta(0), SLOT),
        (SLOT, timedelta(minutes=5), NOW - timedelta(minutes=5)),
        (NOW - timedelta(days=60), timedelta(0), NOW - RETENTION),
        (None, timedelta(days=60), NOW - timedelta(days=60)),
    ],
    ids=["room for all", "surplus", "spared", "older than a month", "spared for long"],
)
def test_a_past_goes_up_to_what_is_surplus_or_old_and_not_spared(surplus, spare, up_to):
    assert rules.prune_up_to(Prune("sync", 5, spare), surplus, NOW) == up_to


@pytest.mark.parametrize("slot", [NOW + MILLISECOND, SLOT], ids=["not due", "not later"])
def test_a_slot_found_by_a_former_one_is_done_before_anything_else_is_asked(slot):
    record = replace(EMPTY, newest=SLOT)

    asked = replace(_claim(slot=slot), after=SLOT - TICK if slot > SLOT else SLOT)

    step = rules.claim(record, asked, NOW)
    assert step.answer.outcome is Outcome.DONE
    assert step.record is record


def test_a_registration_hears_the_newest_slot():
    assert _register(replace(EMPTY, newest=SLOT), "v1").answer.newest == SLOT


def test_pruning_raises_the_floor_to_the_newest_slot_that_goes():
    """G2"""
    slots = [SLOT - count * timedelta(minutes=1) for count in range(4)]
    record = _record(*(_run(slot, RunState.SUCCESS) for slot in slots))

    step = rules.prune(record, slots[1] + MILLISECOND)

    assert step.answer == (slots[3], slots[2], slots[1])
    assert step.record.floor == slots[1]
    assert set(step.record.runs) == {slots[0]}


def test_pruning_never_lowers_the_floor():
    record = _record(_run(SLOT, RunState.SUCCESS), floor=NOW)

    assert rules.prune(record, SLOT).record.floor == NOW


def test_pruning_leaves_an_unfinished_run_below_the_floor_as_it_is():
    waiting = _run(SLOT - timedelta(minutes=1), token=None, expires=None)
    record = _record(waiting, _run(SLOT, RunState.SUCCESS))

    pruned = rules.prune(record, SLOT).record

    assert pruned.runs == {waiting.slot: waiting}
    taken = rules.claim(pruned, _claim("b", slot=waiting.slot, mode=Mode.TAKEOVER), NOW)
    assert taken.answer.outcome is Outcome.WON


def test_pruning_below_everything_changes_nothing():
    record = _record(_run(SLOT, RunState.SUCCESS))

    assert rules.prune(record, SLOT - MILLISECOND).record is record


def test_a_run_is_forgotten_only_after_the_retention():
    slot = NOW - RETENTION
    record = _record(_run(slot, expires=slot))

    assert rules.forget("sync", record, NOW).record is record

    step = rules.forget("sync", record, NOW + TICK)
    assert step.record.runs[slot].state is RunState.LOST
    (closed,) = step.attempts
    assert (closed.state, closed.ended, closed.fence) == (RunState.LOST, NOW + TICK, 7)


def test_a_released_run_is_forgotten_without_closing_its_attempt_twice():
    slot = NOW - 2 * RETENTION
    record = _record(_run(slot, token=None, expires=None))

    step = rules.forget("sync", record, NOW)

    assert step.record.runs[slot].state is RunState.LOST
    assert step.attempts == ()


def test_a_busy_run_is_never_forgotten():
    record = _record(_run(NOW - 2 * RETENTION))

    assert rules.forget("sync", record, NOW).record is record


def test_the_token_of_a_forgotten_run_writes_nothing():
    """G4"""
    slot = NOW - 2 * RETENTION
    record = rules.forget("sync", _record(_run(slot, expires=slot)), NOW).record

    assert not rules.finish(record, Finish("sync", slot, "a", RunState.SUCCESS), NOW).answer
    assert not rules.release(record, Release("sync", slot, "a"), NOW).answer
    assert not rules.renew(record, Renewal("sync", slot, "a"), NOW).answer


def test_a_look_that_arrives_again_after_its_attempt_lapsed_starts_no_other():
    """G4: the first one's answer was given long ago, and its attempt may still be at work."""
    look = _claim("b", mode=Mode.TAKEOVER)
    lapsed = _run(token="b", attempt=2, expires=NOW - TICK)

    step = rules.claim(_record(lapsed), look, NOW)

    assert step.answer.outcome is Outcome.RUNNING
    assert step.record.runs[SLOT] == lapsed


def test_a_look_of_an_attempt_that_was_taken_over_starts_no_other():
    """G4."""
    record = _record(_run(token="b", expires=NOW - TICK))
    taken = rules.claim(record, _claim("c", mode=Mode.TAKEOVER), NOW).record

    again = rules.claim(taken, _claim("b", mode=Mode.TAKEOVER), NOW + LEASE)

    assert again.answer.outcome is Outcome.RUNNING
    assert again.record is taken


def test_the_release_of_an_attempt_that_was_taken_over_is_refused():
    """G4: it was spent by its lapse, and never given back."""
    record = _record(_run(token="b", expires=NOW - TICK))
    taken = rules.claim(record, _claim("c", mode=Mode.TAKEOVER), NOW).record

    assert not rules.release(taken, Release("sync", SLOT, "b"), NOW).answer
