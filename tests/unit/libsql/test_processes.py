"""One server, several processes, the same slots at the same instants."""

from __future__ import annotations

import pytest

from anarchon_contract.claims.contest import contend
from anarchon_contract.leases.questions import JOB
from tests.unit.libsql.conftest import NAMESPACE, meet

pytestmark = pytest.mark.xdist_group("sqld")


@pytest.mark.parametrize(
    ("slots", "gap"),
    [
        # processes start slowly on a busy machine
        pytest.param(25, 5, marks=pytest.mark.timeout(240)),
        pytest.param(2000, 20, marks=[pytest.mark.soak, pytest.mark.timeout(1200)]),
    ],
)
async def test_of_8_processes_one_wins_each_slot(server, store, ask, slots, gap):
    """G1"""
    await meet(server, store, JOB)

    wins = await contend(
        server.url(), NAMESPACE, slots=slots, gap=gap, program="tests.unit.libsql.contender"
    )

    assert len(wins) == slots
    assert set(wins.values()) == {1}
    history = await ask.history(limit=2 * slots)
    assert [attempt.attempt for attempt in history] == [1] * slots
