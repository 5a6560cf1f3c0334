"""What is short to write, and to compare, in a small history."""

from __future__ import annotations

from datetime import datetime

from anarchon.testing import Body, Kind, Verdict
from tests.unit.checker.legal import at, fence_at


def body(
    slot: float,
    on: str,
    started: float,
    ended: float | None,
    *,
    attempt: int = 1,
    failed: bool = False,
    fence: float | None = None,
) -> Body:
    number = fence_at(started if fence is None else fence)
    end = None if ended is None else at(ended)
    return Body("sync", at(slot), attempt, number, on, at(started), end, failed)


def found(verdict: Verdict) -> list[tuple[Kind, datetime]]:
    return [(finding.kind, finding.slot) for finding in verdict.findings]
