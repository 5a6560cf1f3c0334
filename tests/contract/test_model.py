"""What `anarchon_contract` has in this module, on every store, and the same for long.

A failure of the soak is repeated with the seed that it prints: ``ANARCHON_SEED=7 pytest -m soak
tests/contract/test_model.py -k redis-8.0``.
"""

from __future__ import annotations

import os
from random import Random

import pytest
from hypothesis import settings

from anarchon_contract.leases.test_model import *  # noqa: F403
from anarchon_contract.leases.test_model import USUAL, run_programs

# time for hypothesis to shorten what failed
pytestmark = pytest.mark.timeout(400)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_a_store_answers_as_the_rules_do_for_long(open_held_harness):
    """G1, G2, G3, G4, G5"""
    start = int(os.environ.get("ANARCHON_SEED", Random().randrange(10**6)))
    chosen = settings(USUAL, max_examples=1500, derandomize=False)
    try:
        run_programs(open_held_harness, chosen, held=True, start=start)
    except Exception as failure:
        failure.add_note(f"ANARCHON_SEED={start} repeats it")
        raise
