"""Runs and publishers as the engine would make them."""

from datetime import UTC, datetime
from typing import Any

from celery import Celery
from kombu import Queue

from anarchon import RunContext, Signal
from anarchon_celery.broker import Broker
from anarchon_celery.entries import Entry, load, read_entries
from anarchon_celery.publisher import CeleryPublisher

SLOT = datetime(2026, 11, 29, 12, 0, 10, tzinfo=UTC)


def run(job: str = "job", *, attempt: int = 1, token: str = "t0k3n") -> RunContext:
    return RunContext(
        job=job,
        slot=SLOT,
        attempt=attempt,
        fence=1_795_000_000_000,
        token=token,
        instance="here-1",
        namespace="proj",
        deadline=None,
        signal=Signal(),
    )


def entry_of(app: Celery, name: str = "job") -> Entry:
    """Return the one entry of that name, which must be good."""
    load(app)
    entries, problems = read_entries(app)
    assert problems == []
    return next(entry for entry in entries if entry.name == name)


def publisher_of(app: Celery, **fields: object) -> CeleryPublisher:
    """Return the publisher of an entry with these fields, on a connection of its own."""
    app.conf.beat_schedule = {"job": {"task": "proj.note", "schedule": 60, **fields}}
    return CeleryPublisher(app, entry_of(app), Broker(app))


def taken(app: Celery, queue: str = "celery") -> Any:
    """Take the one message out of a queue of a broker in this process."""
    with app.connection_for_read() as connection:
        message = Queue(queue).bind(connection.default_channel).get(no_ack=True)
        assert message is not None
        return message


__all__ = ["SLOT", "entry_of", "publisher_of", "run", "taken"]
