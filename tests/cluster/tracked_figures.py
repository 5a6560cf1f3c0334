"""What chaos among tracked runs came to, as a table to print and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from tests.cluster.faults import Fault
from tests.cluster.tracked_evidence import TrackedAftermath
from tests.cluster.tracked_judging import Judged


def figures(
    store: str,
    seconds: float,
    faults: Sequence[Fault],
    aftermath: TrackedAftermath,
    judged: Judged,
) -> dict[str, Any]:
    """Return what a run came to."""
    deliveries = Counter(received.message for received in aftermath.received)
    return {
        "store": store,
        "seconds": round(seconds),
        "faults": dict(sorted(Counter(fault.kind for fault in faults).items())),
        "runs": len({(start.job, start.slot) for start in aftermath.starts}),
        "starts": len(aftermath.starts),
        "of retries": sum(start.retry > 0 for start in aftermath.starts),
        "of takeovers": sum(start.attempt > 1 for start in aftermath.starts),
        "messages delivered again": sum(count - 1 for count in deliveries.values()),
        "ends": dict(sorted(Counter(str(a.state) for a in aftermath.history).items())),
        "slots demanded": judged.demanded,
        "skipped": judged.skipped,
        "deliveries demanded": judged.begun_in_time,
        "takeovers timed": len(judged.takeovers),
        "longest takeover": max((t.total_seconds() for t in judged.takeovers), default=0.0),
        "its bound": judged.bound.total_seconds(),
        "workers ended by kombu": aftermath.crashes,
        "stalls of the machine": len(aftermath.stalls),
        "excused": dict(sorted(Counter(e.partition(":")[0] for e in judged.excused).items())),
        "violations": judged.findings,
    }


def as_table(told: dict[str, Any]) -> str:
    """Return the figures for people."""
    lines = [
        f"{told['store']}, tracked: {told['seconds']} s, {sum(told['faults'].values())} faults"
    ]
    for name, count in told.items():
        if name in ("faults", "ends", "excused"):
            lines += [f"  {number:6} {name}: {kind}" for kind, number in count.items()]
        elif name == "violations":
            lines += [f"  {len(count):6} violations", *(f"         {said}" for said in count)]
        elif name not in ("store", "seconds"):
            lines.append(f"  {count:6} {name}")
    return "\n".join(lines)
