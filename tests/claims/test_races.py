"""What `anarchon_contract` has in this module, on every store, and the same with more slots."""

from __future__ import annotations

import pytest

from anarchon_contract.claims.contest import contend
from anarchon_contract.claims.harness import NAMESPACE, Feature
from anarchon_contract.claims.test_races import *  # noqa: F403
from anarchon_contract.needing import needs


@pytest.mark.soak
@pytest.mark.timeout(600)
@needs(Feature.PROCESSES)
async def test_of_8_processes_one_wins_each_of_2000_slots(harness, store):
    """G1"""
    wins = await contend(harness.url, NAMESPACE, slots=2000, gap=10)

    assert len(wins) == 2000
    assert set(wins.values()) == {1}
