"""One of several instances for which everything is due at one instant, published at once."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from anarchon import Scheduler
from anarchon.run import RunContext
from anarchon.schedules import At
from benchmarks.counting import CountingBackend
from benchmarks.instances.telling import Spec, hear, run, tell
from benchmarks.leases import lease_backend


class _Publisher:
    """A broker that takes no time at all."""

    task = "nothing"
    sends_to = "nowhere"

    def __init__(self) -> None:
        self.lags: list[float] = []

    def publish(self, ctx: RunContext) -> str:
        self.lags.append(time.time() - ctx.slot.timestamp())
        return "sent"


async def scenario(spec: Spec) -> None:
    backend = CountingBackend(lease_backend(spec["url"]))
    publisher = _Publisher()
    scheduler = Scheduler(backend, namespace=spec["namespace"])
    tell("up")
    moment = datetime.fromtimestamp((await hear())["moment"], UTC)
    jobs = spec["jobs"]
    for number in range(jobs):
        # entries of a beat schedule may overlap, so these may
        scheduler.add(f"job-{number:05}", At(moment), publisher, overlap="allow")
    await scheduler.start()
    before = backend.trips.copy()
    cpu = time.process_time()
    tell("ready", early=moment.timestamp() - time.time())
    await backend.all_settled(jobs)
    trips = backend.trips - before
    tell(
        "settled",
        cpu=time.process_time() - cpu,
        took=time.time() - moment.timestamp(),
        trips=dict(trips),
        asked=dict(backend.asked),
        published=len(publisher.lags),
        lags=publisher.lags,
    )
    await hear()


if __name__ == "__main__":
    run(scenario)
