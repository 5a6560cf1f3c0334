"""The rules of a tracked run, searched through what publishers, broker and workers can do.

A begin is asked again after a lost answer or arrives twice, a message comes twice or goes back,
a task is retried, a publisher freezes before it marks, a worker dies or freezes.
"""

from dataclasses import replace
from datetime import timedelta

import pytest

from anarchon import rules, tracked
from anarchon.record import Step
from anarchon.run import RunState
from tests.simulation.fleet_model import Model
from tests.simulation.store_model import Rules
from tests.simulation.test_rules_search import LONG, SOAK, explored, told


def published(**size) -> Model:
    return Model(**{"tracked": True, "claims": 2, **size})


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(published(retries=1), id="one fault, a retry"),
        pytest.param(published(claims=3), id="one fault, two takeovers", marks=LONG),
        pytest.param(published(faults=0, retries=2, deadlines=True), id="two retries"),
        pytest.param(published(deadlines=True), id="one fault, a deadline"),
        pytest.param(published(stops=True, max_attempts=1), id="one attempt, stops"),
        pytest.param(published(slots=2, faults=0, deadlines=True), id="two slots"),
        pytest.param(published(faults=2, retries=1), id="two faults, a retry", marks=SOAK),
        pytest.param(
            published(retries=1, deadlines=True, stops=True, claims=3), id="all at once", marks=SOAK
        ),
        pytest.param(
            published(slots=2, faults=0, deadlines=True, claims=3),
            id="two slots, a look",
            marks=SOAK,
        ),
        pytest.param(published(slots=2, deadlines=True), id="two slots, one fault", marks=SOAK),
    ],
)
def test_no_sequence_of_events_breaks_a_promise_of_a_tracked_run(model, record_property):
    """G1, G2, G3, G4, G6, G12."""
    found = explored(model)

    assert found.broken is None, told(found)
    assert found.states > 500
    record_property("states", found.states)


def test_beginning_what_is_queued_only_is_caught():
    """The worker may be faster than the publisher's mark."""

    def flawed(record, asked, time):
        run = record.runs.get(asked.slot)
        if run is not None and run.state is RunState.CLAIMED:
            return Step(False, record)
        return tracked.begin(record, asked, time)

    found = explored(published(faults=0, rules=Rules(begin=flawed)))

    assert found.broken == "slot 0 says queued and no message of it is left", told(found)


def test_a_mark_that_queues_what_runs_is_caught():
    def flawed(record, asked, time):
        run = record.runs.get(asked.slot)
        if asked.waiting is not None and run is not None and run.token == asked.token:
            waits = replace(run, state=RunState.QUEUED, expires=None)
            return Step(True, record.having(waits))
        return rules.renew(record, asked, time)

    found = explored(published(faults=0, rules=Rules(renew=flawed)))

    assert found.broken is not None
    assert found.broken.startswith(("slot 0 is at work", "G4")), told(found)


def test_telling_deliveries_apart_by_their_token_is_caught():
    """G12: a message that comes twice would start twice."""

    def flawed(record, asked, time):
        run = record.runs.get(asked.slot)
        if run is not None and run.token == asked.token and run.state is RunState.RUNNING:
            record = record.having(replace(run, nonce=asked.nonce))
        return tracked.begin(record, asked, time)

    found = explored(published(rules=Rules(begin=flawed)))

    assert found.broken == "G12: an attempt started twice for one retry", told(found)


def test_beginning_without_a_look_at_the_retry_is_caught():
    """A retry that is faster than the mark of it would be refused, and its message gone."""

    def flawed(record, asked, time):
        run = record.runs.get(asked.slot)
        return tracked.begin(
            record, asked if run is None else replace(asked, retry=run.retry), time
        )

    found = explored(published(faults=0, retries=1, rules=Rules(begin=flawed)))

    assert found.broken == "slot 0 says queued and no message of it is left", told(found)


def test_beginning_after_the_start_deadline_is_caught():
    """G12: the run may have been ended as expired, or be about to."""

    def flawed(record, asked, time):
        run = record.runs.get(asked.slot)
        if run is not None:
            record = record.having(replace(run, deadline=None))
        return tracked.begin(record, asked, time)

    found = explored(published(faults=0, deadlines=True, rules=Rules(begin=flawed)))

    assert found.broken == "G12: begun after its start deadline", told(found)


def test_a_release_that_keeps_the_token_is_caught():
    """G4: the message of what was given back would start, beside that of the next attempt."""

    def flawed(record, asked, time):
        step = rules.release(record, asked, time)
        run = step.record.runs.get(asked.slot)
        if step.record is record or run is None:
            return step
        kept = replace(run, token=asked.token, spent=run.spent[:-1])
        return replace(step, record=step.record.having(kept))

    found = explored(published(rules=Rules(release=flawed)))

    assert found.broken == "G4: a former token began", told(found)


def test_a_run_that_is_overdue_and_counts_as_busy_is_caught():
    """G12: its job would wait for it for ever."""

    def flawed(record, asked, time):
        late = {
            slot: replace(run, deadline=time + timedelta(days=1))
            for slot, run in record.runs.items()
            if run.is_overdue_at(time)
        }
        return rules.claim(replace(record, runs={**record.runs, **late}), asked, time)

    found = explored(published(faults=0, deadlines=True, rules=Rules(claim=flawed)))

    assert found.broken == "G12: past its start deadline, met by a claim, and not ended", told(
        found
    )


def test_a_next_slot_held_back_by_an_overdue_run_is_caught():
    """G9."""

    def flawed(record, asked, time):
        late = {
            slot: replace(run, deadline=time + timedelta(days=1))
            for slot, run in record.runs.items()
            if run.is_overdue_at(time) and slot != asked.slot
        }
        return rules.claim(replace(record, runs={**record.runs, **late}), asked, time)

    found = explored(
        published(slots=2, faults=0, deadlines=True, rules=Rules(claim=flawed), claims=3)
    )

    assert found.broken == "G9: held back though no other run is busy", told(found)


def test_a_queued_run_that_holds_back_nobody_is_caught():
    """G3: a backlog is no crash."""

    def flawed(record, asked, time):
        waiting = {
            slot: replace(run, state=RunState.CLAIMED)
            for slot, run in record.runs.items()
            if run.state is RunState.QUEUED
        }
        return rules.claim(replace(record, runs={**record.runs, **waiting}), asked, time)

    found = explored(published(slots=2, faults=0, rules=Rules(claim=flawed), claims=3))

    assert found.broken == "G3: won while another run was busy", told(found)


def test_a_publisher_that_ends_what_a_worker_runs_is_caught():
    """G4: it gave up on a confirmation, and the message had long been begun."""

    def flawed(record, asked, time):
        run = record.runs.get(asked.slot)
        return rules.finish(record, asked if run is None else replace(asked, nonce=run.nonce), time)

    found = explored(published(rules=Rules(finish=flawed)))

    assert found.broken is not None
    assert found.broken.startswith("G4"), told(found)
