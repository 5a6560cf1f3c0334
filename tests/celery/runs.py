"""Runs and publishers as the engine would make them."""

from datetime import UTC, datetime
from typing import Any

import pytest
from celery import Celery
from kombu import Queue

from anarchon import RunContext, Signal
from anarchon.run import Tracking
from anarchon_celery import InvalidEntries, scheduler_for
from anarchon_celery.beat_sender import Sender
from anarchon_celery.broker import Broker
from anarchon_celery.entries import Entry, load, read_entries
from anarchon_celery.publisher import CeleryPublisher

SLOT = datetime(2026, 11, 29, 12, 0, 10, tzinfo=UTC)


def run(
    job: str = "job",
    *,
    attempt: int = 1,
    token: str = "t0k3n",
    slot: datetime = SLOT,
    tracking: Tracking | None = None,
) -> RunContext:
    return RunContext(
        job=job,
        slot=slot,
        attempt=attempt,
        fence=1_795_000_000_000,
        token=token,
        instance="here-1",
        namespace="proj",
        deadline=None,
        signal=Signal(),
        tracking=tracking,
    )


def entry_of(app: Celery, name: str = "job") -> Entry:
    """Return the one entry of that name, which must be good."""
    load(app)
    entries, problems = read_entries(app)
    assert problems == []
    return next(entry for entry in entries if entry.name == name)


def problems_of(app: Celery, **entry: Any) -> list[str]:
    """Return what is wrong with an entry of these fields."""
    app.conf.beat_schedule = {"job": entry}
    with pytest.raises(InvalidEntries) as caught:
        scheduler_for(app, store="memory://")
    return [str(error) for error in caught.value.errors]


def jobs_of(app: Celery, **options: Any) -> set[str]:
    """Return the names of the jobs that an app's entries come to."""
    return {job.name for job in scheduler_for(app, store="memory://", **options).jobs}


def publisher_of(app: Celery, **fields: object) -> CeleryPublisher:
    """Return the publisher of an entry with these fields, on a connection of its own."""
    app.conf.beat_schedule = {"job": {"task": "proj.note", "schedule": 60, **fields}}
    return CeleryPublisher(Sender(app), entry_of(app), Broker(app))


def taken(app: Celery, queue: str = "celery") -> Any:
    """Take the one message out of a queue of a broker in this process."""
    with app.connection_for_read() as connection:
        message = Queue(queue).bind(connection.default_channel).get(no_ack=True)
        assert message is not None
        return message


__all__ = [
    "SLOT",
    "entry_of",
    "jobs_of",
    "problems_of",
    "publisher_of",
    "run",
    "taken",
]
