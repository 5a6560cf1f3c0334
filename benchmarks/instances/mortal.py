"""An instance that may win one long run, and be killed in it."""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime

from anarchon import Scheduler
from anarchon.run import RunContext
from benchmarks.instances.telling import Spec, hear, run, tell


async def scenario(spec: Spec) -> None:
    # a takeover is worth a warning, but here it is what is asked for
    logging.getLogger("anarchon").setLevel(logging.ERROR)
    scheduler = Scheduler(spec["url"], namespace=spec["namespace"])

    async def work(ctx: RunContext) -> None:
        # monotonic time is the same for all processes of a machine
        tell("attempt", number=ctx.attempt, at=time.monotonic())
        await ctx.signal.wait()

    tell("up")
    moment = datetime.fromtimestamp((await hear())["moment"], UTC)
    scheduler.at("long", moment, work, lease=spec["lease"])
    await scheduler.start()
    tell("ready", early=moment.timestamp() - time.time())
    await hear()


if __name__ == "__main__":
    run(scenario)
