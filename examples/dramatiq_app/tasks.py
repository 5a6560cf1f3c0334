"""A Dramatiq project whose workers are its scheduler; `dramatiq tasks` runs all of it."""

import json
import os
from pathlib import Path

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from anarchon_dramatiq import AnarchonMiddleware, cron, current_run, every

REDIS = os.environ.get("REDIS", "redis://localhost:6379/0")
RECORDS = Path(os.environ.get("RECORDS", "records.jsonl"))

broker = RedisBroker(url=REDIS)
broker.add_middleware(AnarchonMiddleware(os.environ.get("STORE", REDIS), namespace="example"))
dramatiq.set_broker(broker)


@dramatiq.actor(periodic=every("1s", name="sample-every-second", args=("sensor-1",)))
def sample(sensor: str) -> None:
    record(sensor)


# Followed to its end: no two overlap, and if its worker dies, another goes on with it.
@dramatiq.actor(periodic=every("2s", track=True, overlap="skip", timeout="1m"))
def collect() -> None:
    record("collected")


@dramatiq.actor(periodic=cron("30 7 * * mon-fri", timezone="Europe/Athens"))
def report() -> None:
    record("report")


def record(what: str) -> None:
    """Note for which run this is; ``None`` where somebody sent the message by hand."""
    run = current_run()
    said = {} if run is None else {"job": run.job, "slot": run.slot.isoformat()}
    with RECORDS.open("a") as file:
        file.write(json.dumps({"what": what, **said}) + "\n")
