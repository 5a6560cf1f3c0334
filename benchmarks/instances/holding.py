"""An instance that holds so many leases, and counts what keeping them costs."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from anarchon import Scheduler
from anarchon.run import RunContext
from benchmarks.counting import CountingBackend
from benchmarks.instances.telling import Spec, hear, run, tell
from benchmarks.leases import lease_backend

_LEASE, _HEARTBEAT = 3.0, 1.0


async def scenario(spec: Spec) -> None:
    backend = CountingBackend(lease_backend(spec["url"]))
    scheduler = Scheduler(backend, namespace=spec["namespace"])
    waiting, all_work = spec["held"], asyncio.Event()

    async def work(ctx: RunContext) -> None:
        nonlocal waiting
        waiting -= 1
        if not waiting:
            all_work.set()
        await ctx.signal.wait()

    tell("up")
    moment = datetime.fromtimestamp((await hear())["moment"], UTC)
    for number in range(spec["held"]):
        scheduler.at(f"job-{number:05}", moment, work, lease=_LEASE, heartbeat=_HEARTBEAT)
    await scheduler.start()
    await all_work.wait()
    await asyncio.sleep(2 * _HEARTBEAT)
    before = backend.trips["renew"]
    await asyncio.sleep(spec["heartbeats"] * _HEARTBEAT)
    tell("held", renewals=(backend.trips["renew"] - before) / spec["heartbeats"])


if __name__ == "__main__":
    run(scenario)
