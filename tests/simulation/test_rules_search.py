"""The rules of a claim, searched through everything a few instances can do and suffer."""

from dataclasses import replace
from datetime import timedelta

import pytest

from anarchon import rules
from anarchon.record import Step
from anarchon.run import Overlap
from anarchon.store import Mode, Outcome
from tests.simulation.fleet_model import Model
from tests.simulation.search import Found, search
from tests.simulation.store_model import Rules

#: For a machine that does much else.
LONG = pytest.mark.timeout(300)
SOAK = [pytest.mark.soak, pytest.mark.timeout(1200)]


def explored(model: Model) -> Found:
    return search(model.start(), model.steps, model.broken, model.key)


def told(found: Found) -> str:
    return "\n".join((found.broken or "", *found.way))


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(Model(faults=2), id="one slot, two faults"),
        pytest.param(Model(instances=3, claims=4), id="three instances"),
        pytest.param(Model(faults=2, stops=True, claims=4), id="one slot, stops"),
        pytest.param(Model(faults=2, max_attempts=1, stops=True, claims=4), id="one attempt"),
        pytest.param(Model(slots=2, claims=3), id="two slots, one fault", marks=LONG),
        pytest.param(Model(slots=2, faults=0, fast_clock=True, claims=4), id="a clock ahead"),
        pytest.param(Model(slots=2, faults=0, stops=True, claims=4), id="two slots, stops"),
        pytest.param(Model(slots=2, faults=0, catch_up=True, claims=4), id="catch-up"),
        pytest.param(
            Model(slots=2, overlap=Overlap.ALLOW, claims=3), id="overlap allowed", marks=LONG
        ),
        pytest.param(Model(faults=3), id="one slot, three faults", marks=SOAK),
        pytest.param(
            Model(instances=3, faults=2, claims=4), id="three instances, two faults", marks=SOAK
        ),
        pytest.param(
            Model(slots=2, stops=True, catch_up=True, claims=3),
            id="two slots, all at once",
            marks=SOAK,
        ),
    ],
)
def test_no_sequence_of_events_breaks_a_promise(model, record_property):
    """G1, G2, G3, G4, G6."""
    found = explored(model)

    assert found.broken is None, told(found)
    assert found.states > 1000
    record_property("states", found.states)


def without_raising(record, up_to):
    return Step((), replace(rules.prune(record, up_to).record, floor=record.floor))


def test_pruning_without_raising_the_floor_is_caught():
    """G2."""
    found = explored(Model(rules=Rules(prune=without_raising)))

    assert found.broken == "G2: a finished slot was won again", told(found)


def test_claiming_without_reading_the_floor_is_caught():
    """G2; scenario D01: a lagging instance claims a slot that ran and was pruned."""

    def flawed(record, asked, time):
        step = rules.claim(replace(record, floor=record.floor - timedelta(days=1)), asked, time)
        return replace(step, record=replace(step.record, floor=record.floor))

    found = explored(Model(faults=0, rules=Rules(claim=flawed)))

    assert found.broken == "G2: a finished slot was won again", told(found)


def by_slot_alone(record, asked, time):
    run = record.runs.get(asked.slot)
    if run is not None and run.token is not None:
        asked = replace(asked, token=run.token)
    return rules.finish(record, asked, time)


def test_finishing_by_slot_alone_is_caught():
    """G4; scenario D02: a frozen runner that was taken over wakes and ends its successor's run."""
    found = explored(Model(faults=2, rules=Rules(finish=by_slot_alone)))

    assert found.broken == "G4: a former token wrote", told(found)


def test_renewing_by_slot_alone_is_caught():
    """G1: two would be told that they hold the slot."""

    def flawed(record, asked, time):
        run = record.runs.get(asked.slot)
        if run is not None and run.token is not None:
            asked = replace(asked, token=run.token)
        return rules.renew(record, asked, time)

    found = explored(Model(faults=1, rules=Rules(renew=flawed)))

    assert found.broken is not None
    assert found.broken.startswith(("G1", "G4")), told(found)


def test_claiming_without_looking_at_other_runs_is_caught():
    """G3."""

    def flawed(record, asked, time):
        return rules.claim(
            record, replace(asked, terms=replace(asked.terms, overlap=Overlap.ALLOW)), time
        )

    found = explored(Model(slots=2, faults=0, rules=Rules(claim=flawed), claims=4))

    assert found.broken == "G3: won while another run was busy", told(found)


def test_a_look_that_hears_done_for_a_lapsed_run_is_caught():
    """G6: as a scheduler that forgets a run because its first runner is gone."""

    def flawed(record, asked, time):
        step = rules.claim(record, asked, time)
        if step.answer.attempt > 1 and step.answer.outcome is Outcome.WON:
            return Step(replace(step.answer, outcome=Outcome.DONE), record)
        return step

    found = explored(Model(rules=Rules(claim=flawed)))

    assert found.broken == "G6: nobody watches slot 0", told(found)


def test_a_takeover_that_keeps_the_token_is_caught():
    """G4: the former holder could go on."""

    def flawed(record, asked, time):
        step = rules.claim(record, asked, time)
        before, after = record.runs.get(asked.slot), step.record.runs.get(asked.slot)
        if before is None or after is None or before.token is None or after.state.has_ended:
            return step
        return replace(step, record=step.record.having(replace(after, token=before.token)))

    found = explored(Model(faults=2, rules=Rules(claim=flawed)))

    assert found.broken is not None
    assert found.broken.startswith("G4"), told(found)


def test_a_look_that_may_come_twice_is_caught():
    """G4: spent were the tokens that were released, and not those whose attempt lapsed."""

    def flawed(record, asked, time):
        run = record.runs.get(asked.slot)
        if run is None or asked.token in run.spent or run.is_busy_at(time):
            return rules.claim(record, asked, time)
        step = rules.claim(record, replace(asked, token="1000"), time)
        taken = step.record.runs[asked.slot]
        if taken.token != "1000":
            return step
        return replace(step, record=step.record.having(replace(taken, token=asked.token)))

    found = explored(Model(faults=2, claims=3, rules=Rules(claim=flawed)))

    assert found.broken == "G4: a token won a second attempt", told(found)


def test_a_first_claim_that_takes_over_is_caught():
    """G1: a late first claim would start a run a second time."""

    def flawed(record, asked, time):
        run = record.runs.get(asked.slot)
        if asked.mode is Mode.SCHEDULED and run is not None and not run.has_had(asked.token):
            asked = replace(asked, mode=Mode.TAKEOVER)
        return rules.claim(record, asked, time)

    found = explored(Model(faults=1, rules=Rules(claim=flawed)))

    assert found.broken == "G1: a first claim started a second attempt", told(found)
