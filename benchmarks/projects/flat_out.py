"""Publishes messages as fast as Celery lets one process: the limit of every scheduler.

They are those that a scheduler of ours sends, by the same `apply_async`, on one producer.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from benchmarks.projects.shop import app, note
from benchmarks.projects.spec import SPEC

_RUN = {
    "job": "job-000000",
    "slot": "2026-01-01T00:00:00.000Z",
    "attempt": 1,
    "token": "0" * 32,
    "fence": 1,
}


def main() -> None:
    first, count = int(sys.argv[1]), int(sys.argv[2])
    # amqp.Producer as in our publisher: what is lent by a pool costs more
    producer: Any = app.amqp.Producer(app.connection_for_write().channel(), auto_declare=False)
    producer.connection.ensure_connection()
    time.sleep(max(0.0, SPEC["slot"] - time.time()))
    for number in range(first, first + count):
        headers: dict[str, Any] = {
            "celery_beat_task": True,
            "periodic_task_name": f"job-{number:06}",
            "anarchon": _RUN,
        }
        note.apply_async((number,), producer=producer, retry=False, headers=headers)


if __name__ == "__main__":
    main()
