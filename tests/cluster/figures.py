"""What a run of chaos came to, as a table to print and as JSON for the documentation."""

from __future__ import annotations

import json
import os
import statistics
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from anarchon.testing.verdict import Verdict
from tests.cluster.faults import Fault
from tests.cluster.judging import RECOVERY_BOUND, Aftermath

#: A file to which the figures of every run are added, one line of JSON each.
VARIABLE = "ANARCHON_FIGURES"
#: The name under which a test reports its table.
PROPERTY = "figures"


def figures(
    store: str, seconds: float, faults: Sequence[Fault], aftermath: Aftermath, verdict: Verdict
) -> dict[str, Any]:
    """Return what a run came to."""
    takeovers = aftermath.takeovers()
    recoveries = aftermath.recoveries()
    return {
        "store": store,
        "seconds": round(seconds),
        "faults": dict(sorted(Counter(fault.kind for fault in faults).items())),
        "slots demanded": verdict.demanded,
        "runs": len(aftermath.bodies),
        "takeovers": {
            **_spread([t.delay for t in takeovers if t.is_clean]),
            "bound": max((t.bound.total_seconds() for t in takeovers), default=0.0),
            "not judged": sum(not t.is_clean for t in takeovers),
        },
        "recoveries": {
            **_spread([r.delay for r in recoveries]),
            "bound": RECOVERY_BOUND.total_seconds(),
        },
        "stalls of the machine": len(aftermath.stalls),
        "excused": dict(sorted(Counter(str(f.kind) for f in verdict.excused).items())),
        "violations": [str(finding) for finding in verdict.findings],
    }


def _spread(delays: Sequence[timedelta | None]) -> dict[str, Any]:
    seconds = [delay.total_seconds() for delay in delays if delay is not None]
    return {
        "count": len(delays),
        "min": round(min(seconds, default=0.0), 2),
        "median": round(statistics.median(seconds), 2) if seconds else 0.0,
        "max": round(max(seconds, default=0.0), 2),
    }


def as_table(told: dict[str, Any]) -> str:
    """Return the figures for people."""
    lines = [f"{told['store']}: {told['seconds']} s, {sum(told['faults'].values())} faults"]
    lines += [f"  {count:6} x {kind}" for kind, count in told["faults"].items()]
    lines.append(f"  {told['slots demanded']:6} slots demanded, {told['runs']} runs")
    for name in ("takeovers", "recoveries"):
        spread = told[name]
        lines.append(
            f"  {spread['count']:6} {name} after {spread['min']} / {spread['median']} /"
            f" {spread['max']} s (min / median / max), bound {spread['bound']} s"
        )
    lines.append(f"  {told['takeovers']['not judged']:6} takeovers not timed: nobody was well")
    lines.append(f"  {told['stalls of the machine']:6} stalls of the machine")
    lines += [f"  {count:6} excused: {kind}" for kind, count in told["excused"].items()]
    lines.append(f"  {len(told['violations']):6} violations")
    lines += [f"         {finding}" for finding in told["violations"]]
    return "\n".join(lines)


def keep(told: dict[str, Any], folder: Path) -> None:
    """Add the figures to the file that is asked for, or to one in the test's folder."""
    file = Path(os.environ.get(VARIABLE) or folder / "figures.jsonl")
    with file.open("a") as out:
        out.write(json.dumps(told) + "\n")
