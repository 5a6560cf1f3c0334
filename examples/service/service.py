"""A service with jobs of its own. Start it as often as you like: each slot runs once.

Nothing is needed beside anarchon: the store is a SQLite file, for the processes of one machine.
"""

import asyncio
import json
import logging
import os
from datetime import UTC, datetime
from pathlib import Path

from anarchon import RunContext, Scheduler

STORE = os.environ.get("STORE", "sqlite:///service.db")
RECORDS = Path(os.environ.get("RECORDS", "records.jsonl"))

# A short lease: after a kill -9 another process has the run in under nine seconds.
scheduler = Scheduler(STORE, namespace="service", lease="5s")


@scheduler.every("sample", "1s")
async def sample(ctx: RunContext) -> None:
    """A coroutine runs on the scheduler's loop."""
    record(ctx)


@scheduler.every("report", "2s", timeout="30s")
def report(ctx: RunContext) -> dict[str, int]:
    """A plain function runs on a thread; what it returns is shown in the history."""
    record(ctx)
    return {"records": len(RECORDS.read_text().splitlines())}


@scheduler.every("crunch", "1m", timeout="50s")
async def crunch(ctx: RunContext) -> None:
    """A long job goes on in pieces, and ends early when it must: a stop, or a lost lease."""
    for part in range(30):
        ctx.signal.raise_if_set()
        ctx.logger.info("part %d of 30", part + 1)
        await asyncio.sleep(1)
    record(ctx)


@scheduler.cron("clean-up", "30 3 * * *", timezone="Europe/Athens")
def clean_up(ctx: RunContext) -> None:
    RECORDS.unlink(missing_ok=True)


@scheduler.at("new-year", datetime(2027, 1, 1, tzinfo=UTC))
def new_year(ctx: RunContext) -> None:
    record(ctx)


def record(ctx: RunContext) -> None:
    """Note who ran what, in a file that all processes append to."""
    line = {
        "job": ctx.job,
        "slot": ctx.slot.isoformat(),
        "attempt": ctx.attempt,
        "instance": ctx.instance,
    }
    with RECORDS.open("a") as file:
        file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    asyncio.run(scheduler.run())  # until SIGTERM or SIGINT
