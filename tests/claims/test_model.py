"""What `anarchon_contract` has in this module, on every store, and the same for long.

A failure of the soak is repeated with the seed that it prints, ``ANARCHON_SEED=7``.
"""

from __future__ import annotations

import os
from random import Random

import pytest
from hypothesis import settings

from anarchon_contract.claims.test_model import *  # noqa: F403
from anarchon_contract.claims.test_model import USUAL, run_programs

# time for hypothesis to shorten what failed
pytestmark = pytest.mark.timeout(400)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_a_store_answers_as_the_model_does_for_long(open_harness):
    """G1, G2, G5"""
    start = int(os.environ.get("ANARCHON_SEED", Random().randrange(10**6)))
    chosen = settings(USUAL, max_examples=1000, stateful_step_count=40, derandomize=False)
    try:
        run_programs(open_harness, chosen, start)
    except Exception as failure:
        failure.add_note(f"ANARCHON_SEED={start} repeats it")
        raise
