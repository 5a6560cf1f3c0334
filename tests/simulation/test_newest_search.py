"""The rules of slots that nobody knows beforehand, searched through all that can happen to them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anarchon import rules
from anarchon.run import Overlap
from tests.simulation.polled_model import PolledModel
from tests.simulation.search import Found, search
from tests.simulation.test_rules_search import LONG, told


def explored(model: PolledModel) -> Found:
    return search(model.start(), model.steps, model.broken, lambda world: world)


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(PolledModel(), id="skip", marks=LONG),
        pytest.param(PolledModel(Overlap.ALLOW), id="allow", marks=LONG),
        pytest.param(PolledModel(loses=True, claims=2), id="a store that loses its record"),
    ],
)
def test_each_slot_is_found_by_the_one_before_it(model, record_property):
    """G1: that of another instance at another moment would be the same one again."""
    found = explored(model)

    assert found.broken is None, told(found)
    assert found.states > 1000
    record_property("states", found.states)


def test_claiming_without_a_look_at_the_newest_is_caught():
    def flawed(record, asked, time):
        return rules.claim(record, replace(asked, after=None), time)

    found = explored(PolledModel(Overlap.ALLOW, claim=flawed))

    assert found.broken == "a slot was decided that was not found by the newest", told(found)


def test_skipping_without_a_note_of_it_is_caught():
    """Each look while another run is busy would skip one more slot."""

    def flawed(record, asked, time):
        step = rules.claim(record, asked, time)
        if step.answer.blocker is None:
            return step
        return replace(step, record=replace(step.record, newest=record.newest))

    found = explored(PolledModel(moments=4, claim=flawed))

    assert found.broken == "a slot was decided that was not found by the newest", told(found)


def test_a_record_made_after_a_loss_that_lets_nobody_through_is_caught():
    def flawed(record, asked, time):
        return rules.claim(replace(record, newest=time), asked, time)

    found = explored(PolledModel(claim=flawed))

    assert found.broken == "no further slot can be won", told(found)
