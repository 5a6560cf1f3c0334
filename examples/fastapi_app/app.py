"""A FastAPI application whose every worker process runs the schedule; each slot runs once."""

import json
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI

from anarchon import RunContext, Scheduler

STORE = os.environ.get("STORE", "sqlite:///fastapi_app.db")
RECORDS = Path(os.environ.get("RECORDS", "records.jsonl"))

logging.basicConfig(level=logging.INFO)  # uvicorn sets up its own loggers only

scheduler = Scheduler(STORE, namespace="fastapi-app")


@scheduler.every("refresh", "1s")
async def refresh(ctx: RunContext) -> None:
    record(ctx)


def record(ctx: RunContext) -> None:
    """Note who ran what, in a file that all workers append to."""
    line = {
        "job": ctx.job,
        "slot": ctx.slot.isoformat(),
        "attempt": ctx.attempt,
        "instance": ctx.instance,
    }
    with RECORDS.open("a") as file:
        file.write(json.dumps(line) + "\n")


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    # Entered by each worker on its own loop; left on shutdown, which hands runs over.
    async with scheduler:
        yield


app = FastAPI(lifespan=lifespan)


@app.get("/next")
def next_slots() -> list[str]:
    return [slot.isoformat() for slot in scheduler.next_slots("refresh", 5)]


@app.get("/history")
async def history(limit: int = 10) -> list[dict[str, object]]:
    return [
        {
            "slot": attempt.slot.isoformat(),
            "attempt": attempt.attempt,
            "state": attempt.state,
            "instance": attempt.instance,
        }
        for attempt in await scheduler.history("refresh", limit=limit)
    ]
