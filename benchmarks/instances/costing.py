"""One of several instances whose store is watched: idle, then with slots, then with leases held.

Its numbers of calls are told as they stood at each of the moments in ``marks``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from anarchon import Scheduler
from anarchon.run import RunContext
from benchmarks.counting import CountingBackend
from benchmarks.instances.telling import Spec, hear, run, tell
from benchmarks.leases import lease_backend


async def scenario(spec: Spec) -> None:
    backend = CountingBackend(lease_backend(spec["url"]))
    scheduler = Scheduler(backend, namespace=spec["namespace"])
    _declare_idle(scheduler, spec["jobs"])
    tell("up")
    told = await hear()
    _declare_slots(scheduler, told["slots"], spec["slots"])
    for moment, count in told["leases"]:
        _declare_leases(scheduler, moment, count)
    await scheduler.start()
    tell("ready", early=told["marks"][0] - time.time())
    seen = []
    for mark in told["marks"]:
        await asyncio.sleep(max(0.0, mark - time.time()))
        seen.append(backend.trips.total())
    tell("seen", trips=seen)
    await hear()


def _declare_idle(scheduler: Scheduler, count: int) -> None:
    # the same for every instance
    first = datetime(2099, 1, 1, tzinfo=UTC)
    for number in range(count):
        scheduler.at(f"idle-{number:05}", first + timedelta(minutes=number), _end)


def _declare_slots(scheduler: Scheduler, moments: Sequence[float], each: int) -> None:
    for second, moment in enumerate(moments):
        for number in range(each):
            slot = datetime.fromtimestamp(moment, UTC)
            scheduler.at(f"slot-{second}-{number:03}", slot, _end)


def _declare_leases(scheduler: Scheduler, moment: float, count: int) -> None:
    for number in range(count):
        slot = datetime.fromtimestamp(moment, UTC)
        scheduler.at(f"lease-{count}-{number:04}", slot, _hold)


async def _end(ctx: RunContext) -> None:
    """Have nothing to do."""


async def _hold(ctx: RunContext) -> None:
    await ctx.signal.wait()


if __name__ == "__main__":
    run(scenario)
