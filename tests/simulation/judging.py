"""What is asked of a finished simulation.

The checker judges from outside, the watch at the store's door judged each answer; what is
left is the store's own word: nothing unfinished that nobody watches, and a history that says
what really happened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta

from anarchon.run import RunState
from anarchon.testing.checker import check
from tests.simulation.plans import Report

#: Beyond every bound: a call takes a moment, and a clock nudged a tenth of a second.
PATIENCE = timedelta(seconds=1)


def problems_of(report: Report) -> list[str]:
    """Say everything that is wrong with a simulation."""
    verdict = check(report.evidence, patience=PATIENCE)
    return [
        *report.broken,
        *map(str, verdict.findings),
        *(f"L4: left unfinished: {run}" for run in report.unfinished),
        *(_wrong_history(report) if report.history else ()),
    ]


def _wrong_history(report: Report) -> Iterator[str]:
    """Compare the history with what the work wrote down (H1)."""
    bodies = {(b.job, b.slot, b.attempt): b for b in report.evidence.bodies}
    known = {(a.job, a.slot, a.attempt): a for a in report.history}
    for key, body in bodies.items():
        attempt = known.get(key)
        if attempt is None:
            yield f"H1: not in the history: {body}"
        elif (attempt.fence, attempt.instance) != (body.fence, body.instance):
            yield f"H1: the history says {attempt}, but it was {body}"
    fates = Counter((a.job, a.slot) for a in report.history if _settles(a.state))
    for (job, slot), count in fates.items():
        if count > 1:
            yield f"H1: {job}@{slot} has {count} fates"
    for key, attempt in known.items():
        ran = bodies.get(key)
        if attempt.state in (RunState.SUCCESS, RunState.PUBLISHED) and (
            ran is None or ran.ended is None or ran.failed
        ):
            yield f"H1: the history says {attempt}, but what ran was {ran}"


def _settles(state: RunState) -> bool:
    return state in (RunState.SUCCESS, RunState.PUBLISHED, RunState.FAILED)
