"""Every store answers as the rules do, whatever it is asked and in whatever order.

A random program of questions, repeats, lapsed leases, races and moved clocks runs on a store
and on the rules in memory at once (``machine.py``), and the first difference ends it.
``hypothesis`` then makes the program as short as it can be, and prints it with each question
and answer.

The programs are the same every time, so a failure is replayed by running its test again. Two of
the rules are races, which a store may decide otherwise the next time; hypothesis then calls the
failure flaky, and shows it all the same.
"""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import get_state_machine_test

from anarchon_contract.leases.harness import OpenHarness, OpenHeldHarness
from anarchon_contract.leases.machine import Program
from anarchon_contract.leases.pair import paired

USUAL = settings(
    max_examples=50,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)


def run_programs(
    opens: OpenHarness | OpenHeldHarness | None,
    chosen: settings,
    *,
    held: bool,
    start: int | None = None,
) -> None:
    """Run programs on one store; ``start`` is the seed of those that are not always the same."""
    with paired(opens, held=held) as opened:

        class OfTheStore(Program):
            pair = opened

        test = get_state_machine_test(OfTheStore, settings=chosen)
        if start is not None:
            test = seed(start)(test)
        test()


def test_a_store_answers_as_the_rules_do(open_held_harness):
    """G1, G2, G3, G4, G5"""
    run_programs(open_held_harness, USUAL, held=True)


def test_a_store_answers_as_the_rules_do_by_its_own_clock(open_harness):
    """G1, G2, G3, G4, G5"""
    run_programs(open_harness, settings(USUAL, max_examples=10), held=False)
