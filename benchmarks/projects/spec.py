"""What a project of the benchmarks is to hold, as the environment tells it."""

from __future__ import annotations

import json
import os
from typing import Any

#: broker, entries, jobs, settings; slot and spread where the entries have them; database, ours.
SPEC: dict[str, Any] = json.loads(os.environ["ANARCHON_BENCHMARK"])


def moment_of(number: int) -> float:
    """Return when an entry is due for the first time, as seconds since the epoch."""
    moment: float = SPEC["slot"] + round(number * SPEC.get("spread", 0) / SPEC["jobs"], 3)
    return moment
