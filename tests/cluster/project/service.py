"""A service of its own with a scheduler in it, whose handlers take any time and write it down."""

import asyncio
import json
import os
import random
import sys
from contextlib import suppress
from pathlib import Path

from notes import noted, tell_stalls  # type: ignore[import-not-found]

from anarchon import Scheduler

#: Longest work, in seconds; some outlive a lease, most end before the next slot.
SHORT, LONG = (0.1, 1.6), (3.5, 8.0)
_FAILS = 0.03


def declare(scheduler, claims_only):
    """Declare every kind of handler under either rule; the leases are short, to lapse often.

    A store without leases knows neither leases nor rules.
    """
    often = {} if claims_only else {"lease": "3s", "heartbeat": "1s"}
    skip = {} if claims_only else {"overlap": "skip"}
    scheduler.every("coroutine-skip", "1s", coroutine, **skip, **often)
    scheduler.every("coroutine-allow", "1s", coroutine, overlap="allow", **often)
    scheduler.every("thread-skip", "2s", function, **skip, **often)
    scheduler.every("thread-allow", "2s", function, overlap="allow", **often)
    scheduler.every("long-skip", "5s", long_coroutine, **skip, **often)
    scheduler.every("long-thread-allow", "5s", long_function, overlap="allow", **often)
    scheduler.cron("inline-each-minute", "* * * * *", coroutine, **often)


async def coroutine(ctx):
    await work(ctx, random.uniform(*SHORT))


async def long_coroutine(ctx):
    await work(ctx, random.uniform(*LONG))


def function(ctx):
    work_in_thread(ctx, random.uniform(*SHORT))


def long_function(ctx):
    work_in_thread(ctx, random.uniform(*LONG))


async def work(ctx, seconds):
    with noted(ctx):
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await ctx.signal.wait()
        end(ctx)


def work_in_thread(ctx, seconds):
    with noted(ctx):
        ctx.signal.wait_in_thread(seconds)
        end(ctx)


def end(ctx):
    ctx.signal.raise_if_set()
    if random.random() < _FAILS:
        raise ValueError("fails now and then")


async def tell_ready(scheduler, health_file):
    """Show whether the store answers, as anarchon-beat does."""
    told = False
    while True:
        if scheduler.is_ready != told:
            told = scheduler.is_ready
            health_file.write_text(json.dumps({"pid": os.getpid(), "ready": told}))
        await asyncio.sleep(0.05)


async def main(health_file):
    scheduler = Scheduler(os.environ["CLUSTER_STORE"], name=os.environ["CLUSTER_INSTANCE"])
    declare(scheduler, bool(os.environ.get("CLUSTER_CLAIMS_ONLY")))
    tell_stalls()
    telling = asyncio.create_task(tell_ready(scheduler, health_file))
    await scheduler.run()
    telling.cancel()


if __name__ == "__main__":
    # as anarchon-beat is told it: --health-file PATH
    asyncio.run(main(Path(sys.argv[2])))
