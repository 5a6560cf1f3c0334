"""Every claim-only store answers as the one in memory, whatever it is asked and in whatever order.

``hypothesis`` makes the program that finds a difference as short as it can be, and prints it
with each question and answer. The programs are the same every time.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import get_state_machine_test

from anarchon_contract.claims.harness import OpenHarness
from anarchon_contract.claims.machine import Both, Program

USUAL = settings(
    max_examples=25,
    stateful_step_count=20,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)


def run_programs(opens: OpenHarness, chosen: settings, start: int | None = None) -> None:
    """Run programs on one store; ``start`` is the seed of those that are not always the same."""
    with asyncio.Runner() as runner:
        run = runner.get_loop().run_until_complete
        stack = AsyncExitStack()
        try:
            harness = run(stack.enter_async_context(opens()))
            run(harness.wipe())
            opened = Both(run, harness)
            try:

                class OfTheStore(Program):
                    both = opened

                test = get_state_machine_test(OfTheStore, settings=chosen)
                if start is not None:
                    test = seed(start)(test)
                test()
            finally:
                opened.close()
            run(harness.wipe())
        finally:
            run(stack.aclose())


def test_a_store_answers_as_the_model_does(open_harness):
    """G1, G2, G5"""
    run_programs(open_harness, USUAL)
