"""One process of a crowd: declares its jobs at a sign, runs what it wins, and writes it down."""

import asyncio
import json
import os
import sys
import threading
from datetime import UTC, datetime

from anarchon import Event, RunContext, Scheduler


async def main(store: str, jobs: int, records: str) -> None:
    file = os.open(records, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    scheduler = Scheduler(store, namespace="crowd")

    def note(**what: object) -> None:
        os.write(file, json.dumps(what).encode() + b"\n")

    async def work(ctx: RunContext) -> None:
        note(job=ctx.job, attempt=ctx.attempt, instance=ctx.instance)

    def told(event: Event) -> None:
        note(event=event.kind, job=event.job, line=event.line())

    for kind in ("error", "lease_lost", "takeover", "failure"):
        scheduler.on(kind, told)
    print("ready", flush=True)  # noqa: T201 - whoever started us waits for it
    slot = datetime.fromtimestamp(float(sys.stdin.readline()), UTC)
    for number in range(jobs):
        scheduler.at(f"job {number}", slot, work, max_late="5m", catch_up="5m", jitter="1s")
    async with scheduler:
        done = asyncio.get_running_loop().create_future()
        threading.Thread(target=_read_on, args=(done,), daemon=True).start()
        await done


def _read_on(done: "asyncio.Future[None]") -> None:
    sys.stdin.readline()
    done.get_loop().call_soon_threadsafe(done.set_result, None)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
