"""Replay a simulation: ``python -m tests.simulation SEED``; or search: ``FIRST LAST``.

With ``--tracked`` it is one of tracked runs.
"""

import argparse
import logging
import multiprocessing
import sys
from collections import Counter
from collections.abc import Callable

from anarchon.clock import SystemClock
from tests.simulation.judging import problems_of
from tests.simulation.plans import Plan
from tests.simulation.tracked_plans import TrackedPlan
from tests.simulation.tracked_plans import problems_of as problems_of_tracked

CLOCK = SystemClock()


def say(line: object) -> None:
    print(line, flush=True)  # noqa: T201


def replay(seed: int) -> int:
    """Run one plan, and tell everything."""
    logging.basicConfig(level=logging.DEBUG, stream=sys.stdout, format="    %(message)s")
    report = Plan(seed, say=say).run()
    evidence = report.evidence
    for body in sorted(evidence.bodies, key=lambda b: (b.job, b.slot, b.attempt)):
        say(body)
    for told in (*evidence.troubles, *((i.instance, i.start, i.end) for i in evidence.lives)):
        say(told)
    problems = problems_of(report)
    say("\n".join(problems) or "nothing is wrong")
    return bool(problems)


def replay_tracked(seed: int) -> int:
    """Run one plan of tracked runs, and tell everything."""
    logging.basicConfig(level=logging.DEBUG, stream=sys.stdout, format="    %(message)s")
    report = TrackedPlan(seed, say=say).run_tracked()
    for done in report.done:
        say(done)
    problems = problems_of_tracked(report)
    say("\n".join(problems) or "nothing is wrong")
    return bool(problems)


Tried = tuple[int, Counter[str], int, list[str]]


def search(first: int, last: int, run: Callable[[int], Tried]) -> int:
    """Run many plans on all cores, and tell the seeds of those with which something is wrong."""
    faults, bad, slots, began = Counter[str](), 0, 0, CLOCK.monotonic()
    with multiprocessing.Pool() as pool:
        for seed, injected, ran, problems in pool.imap(run, range(first, last), chunksize=5):
            faults += injected
            slots += ran
            if problems:
                bad += 1
                say(f"seed {seed}: {problems[0]}")
            if (seed - first + 1) % 500 == 0:
                say(f"{seed - first + 1} seeds, {bad} bad, {CLOCK.monotonic() - began:.0f} s")
    for name, count in faults.most_common():
        say(f"{count:8} {name}")
    seconds = CLOCK.monotonic() - began
    say(f"{last - first} seeds, {slots} slots, {faults.total()} faults, {bad} bad, {seconds:.0f} s")
    return bad > 0


def tried(seed: int) -> Tried:
    logging.disable(logging.CRITICAL)
    report = Plan(seed).run()
    slots = {(body.job, body.slot) for body in report.evidence.bodies}
    return seed, report.faults, len(slots), problems_of(report)


def tried_tracked(seed: int) -> Tried:
    logging.disable(logging.CRITICAL)
    report = TrackedPlan(seed).run_tracked()
    slots = {(done.message.ctx.job, done.message.ctx.slot) for done in report.done}
    return seed, report.faults, len(slots), problems_of_tracked(report)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--tracked", action="store_true")
    parser.add_argument("seed", type=int)
    parser.add_argument("last", type=int, nargs="?")
    asked = parser.parse_args()
    if asked.last is None:
        return replay_tracked(asked.seed) if asked.tracked else replay(asked.seed)
    return search(asked.seed, asked.last, tried_tracked if asked.tracked else tried)


if __name__ == "__main__":
    sys.exit(main())
