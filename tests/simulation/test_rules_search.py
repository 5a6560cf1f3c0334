"""The rules, searched through everything two or three instances can do and suffer."""

from dataclasses import replace

import pytest

from anarchon import rules
from anarchon.run import Overlap
from anarchon.store import Outcome
from tests.simulation.fleet_model import Model
from tests.simulation.search import Found, search


def explored(model: Model) -> Found:
    return search(model.start(), model.steps, model.broken)


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(Model(slots=1, faults=2), id="one slot, two faults"),
        pytest.param(Model(slots=1, faults=1, instances=3, tokens=4), id="three instances"),
        pytest.param(Model(slots=1, faults=2, stops=True, tokens=4), id="one slot, stops"),
        pytest.param(Model(slots=1, faults=2, max_attempts=1, stops=True), id="one attempt"),
        pytest.param(Model(slots=2, faults=1, tokens=3), id="two slots, one fault"),
        pytest.param(
            Model(slots=2, faults=1, tokens=4),
            id="two slots, one fault, one more claim",
            marks=[pytest.mark.soak, pytest.mark.timeout(600)],
        ),
        pytest.param(Model(slots=2, faults=0, fast_clock=True, tokens=4), id="a clock ahead"),
        pytest.param(Model(slots=2, faults=0, stops=True, tokens=4), id="two slots, stops"),
        pytest.param(
            Model(slots=2, faults=1, overlap=Overlap.ALLOW, tokens=3), id="overlap allowed"
        ),
    ],
)
def test_no_sequence_of_events_breaks_a_promise(model):
    """G1, G2, G3, G4, G6."""
    found = explored(model)

    assert found.broken is None, "\n".join((found.broken or "", *found.way))
    assert found.states > 100


def test_pruning_without_raising_the_floor_is_caught():
    """G2: the search can find what it looks for."""
    found = explored(Model(slots=1, faults=1, raises_floor=False))

    assert found.broken == "G2: a finished slot was won again"


def test_finishing_by_slot_alone_is_caught():
    """G4: as a scheduler whose late worker ends the run of its successor."""

    def flawed(record, asked, time):
        run = record.runs.get(asked.slot)
        if run is not None and run.token is not None:
            asked = replace(asked, token=run.token)
        return rules.finish(record, asked, time)

    found = explored(Model(slots=1, faults=2, finish=flawed))

    assert found.broken is not None
    assert found.broken.startswith(("G2", "G4"))


def test_claiming_without_looking_at_other_runs_is_caught():
    """G3."""

    def flawed(record, asked, time):
        return rules.claim(
            record, replace(asked, terms=replace(asked.terms, overlap=Overlap.ALLOW)), time
        )

    found = explored(Model(slots=2, faults=0, claim=flawed, tokens=4))

    assert found.broken == "G3: two runs of a job are busy"


def test_a_look_that_hears_done_for_a_lapsed_run_is_caught():
    """G6: as a scheduler that forgets a run because its first runner is gone."""

    def flawed(record, asked, time):
        step = rules.claim(record, asked, time)
        if step.answer.attempt > 1 and step.answer.outcome is Outcome.WON:
            return rules.Step(replace(step.answer, outcome=Outcome.DONE), record)
        return step

    found = explored(Model(slots=1, faults=1, claim=flawed))

    assert found.broken == "G6: nobody watches slot 0"
