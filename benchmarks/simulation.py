"""How much of a fleet's life passes in a minute of CPU, in virtual time."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from random import Random

from anarchon.schedules import Cron
from anarchon.testing.simulator import Labour, Task, World
from benchmarks.stores import Stores
from benchmarks.table import Peer, Row

_HOURS = 24
_MONTH = 31 * 24 * 60


def measure(stores: Stores) -> Iterator[Row]:
    """Simulate three instances that share the slots of one job, each of which takes 3 s."""
    logging.disable(logging.CRITICAL)
    world = World(Random(1), start=datetime(2026, 1, 1, tzinfo=UTC))
    task = Task("job", Cron("* * * * *"), lambda: Labour(3.0))
    machines = [world.add_machine([task]) for _ in range(3)]

    async def main() -> None:
        for machine in machines:
            await machine.start()
        await world.clock.sleep(_HOURS * 3600)

    began = time.process_time()
    world.run(main)
    spent = time.process_time() - began
    logging.disable(logging.NOTSET)
    slots = len({body.slot for body in world.evidence().bodies})
    in_a_minute = slots / spent * 60
    yield Row(
        "simulation: minute slots of three instances, a minute of CPU",
        f"{in_a_minute:,.0f}",
        [Peer("those of a month", f"{_MONTH:,}", in_a_minute / _MONTH)],
        ">= 1",
        in_a_minute >= _MONTH,
    )
