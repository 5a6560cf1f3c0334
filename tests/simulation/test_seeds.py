"""Random bad days in virtual time: one seed is one run, and no seed may break a promise.

``python -m tests.simulation SEED`` replays one, ``python -m tests.simulation FIRST LAST``
tries many.
"""

from __future__ import annotations

import logging
import os
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator

import pytest

from anarchon.clock import SystemClock
from tests.simulation.judging import problems_of
from tests.simulation.plans import SLOTS, Plan, Report

#: Seeds of a plain run of the tests, and how many of them go into one test.
SEEDS, TOGETHER = 100, 10


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    """Leave out what tens of schedulers have to say about bad days."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def tried(seed: int) -> Report:
    report = Plan(seed).run()
    problems = problems_of(report)
    assert problems == [], f"replay it: python -m tests.simulation {seed}"
    return report


@pytest.mark.timeout(300)
@pytest.mark.parametrize("first", range(0, SEEDS, TOGETHER))
def test_no_seed_breaks_a_promise(first: int) -> None:
    """G1, G2, G3, G4, G5, G6, G7, G8, G9."""
    faults, slots = Counter[str](), 0
    for seed in range(first, first + TOGETHER):
        report = tried(seed)
        faults += report.faults
        slots += len({(body.job, body.slot) for body in report.evidence.bodies})

    assert slots > TOGETHER * SLOTS / 2
    assert faults.total() >= TOGETHER * 10


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_no_seed_breaks_a_promise_for_as_long_as_told() -> None:
    """``ANARCHON_SOAK_MINUTES`` says for how long, from a seed after those of every day on."""
    clock, minutes = SystemClock(), float(os.environ.get("ANARCHON_SOAK_MINUTES", "5"))
    end, seed = clock.monotonic() + minutes * 60, SEEDS
    while clock.monotonic() < end:
        tried(seed)
        seed += 1
    print(f"{seed - SEEDS} seeds from {SEEDS} on, nothing wrong")  # noqa: T201


def test_one_seed_is_one_run() -> None:
    def story(seed: int) -> list[str]:
        told: list[str] = []
        bodies = Plan(seed, say=told.append).run().evidence.bodies
        # an instance's id has a random part, which is nobody's business
        return [re.sub(r"-[0-9a-f]{8}", "", line) for line in (*told, *map(str, bodies))]

    assert story(11) == story(11)
    assert story(11) != story(12)


@pytest.mark.timeout(120)
def test_a_seed_is_replayed_by_the_command_that_a_failure_prints() -> None:
    command = [sys.executable, "-m", "tests.simulation", "11"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("nothing is wrong\n")
    assert "start job=job0" in done.stdout


def test_a_run_leaves_the_random_numbers_of_others_alone() -> None:
    random.seed(7)
    before = random.getstate()
    Plan(3).run()

    assert random.getstate() == before
