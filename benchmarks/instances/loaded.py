"""An instance with many jobs of which none is due: what it takes to start and to do nothing."""

from __future__ import annotations

import asyncio
import resource
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from anarchon import Scheduler
from benchmarks.counting import CountingBackend
from benchmarks.instances.telling import Spec, hear, run, tell
from benchmarks.leases import lease_backend


async def scenario(spec: Spec) -> None:
    backend = CountingBackend(lease_backend(spec["url"]))
    scheduler = Scheduler(backend, namespace=spec["namespace"])
    bare = _memory()
    began = time.perf_counter()
    _declare(scheduler, spec["jobs"])
    declared = time.perf_counter()
    await scheduler.start()
    tell(
        "started",
        declaring=declared - began,
        starting=time.perf_counter() - declared,
        bare=bare,
        memory=_memory(),
    )
    while True:
        seconds = (await hear())["idle"]
        calls, cpu, began = backend.trips.total(), time.process_time(), time.monotonic()
        await asyncio.sleep(seconds)
        wall = time.monotonic() - began
        tell(
            "idled",
            share=(time.process_time() - cpu) / wall,
            calls=(backend.trips.total() - calls) / wall * 60,
            memory=_memory(),
        )


def _declare(scheduler: Scheduler, count: int) -> None:
    # from a midnight, so that whoever starts a minute later has the same
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    first = midnight + timedelta(days=40)
    for number in range(count):
        # yearly, at another minute each: nothing is due while this runs
        moment = first + timedelta(minutes=number * 3)
        expression = f"{moment.minute} {moment.hour} {moment.day} {moment.month} *"
        scheduler.cron(f"job-{number:05}", expression, _work, timezone="Europe/Athens")


async def _work(ctx: object) -> None:
    raise AssertionError("nothing is due")


def _memory() -> int:
    status = Path("/proc/self/statm")
    if status.exists():
        return int(status.read_text().split()[1]) * resource.getpagesize()
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else largest * 1024


if __name__ == "__main__":
    run(scenario)
