"""Messages on their way to a real worker, on a real broker and on one without a server."""

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from anarchon.backends.memory import MemoryBackend
from anarchon_celery import scheduler_for
from tests.celery.mailbox import Mailbox
from tests.celery.project import make_app
from tests.celery.runs import publisher_of, run

pytestmark = pytest.mark.xdist_group("celery-workers")


@pytest.fixture
def on_redis(redis_worker: str) -> Celery:
    return make_app(redis_worker)


@pytest.fixture
def in_a_folder(folder_worker: Path) -> Celery:
    return make_app("filesystem://", folder=folder_worker)


def test_a_worker_is_told_the_run(on_redis: Celery, mailbox: Mailbox) -> None:
    publisher = publisher_of(on_redis, args=[1], kwargs={"who": "me"})

    sent = publisher.publish(run())

    report = mailbox.next()
    assert (report["id"], report["args"], report["kwargs"]) == (sent, [1], {"who": "me"})
    assert report["anarchon"] == report["headers"]["anarchon"]
    assert report["anarchon"]["slot"] == "2026-11-29T12:00:10.000Z"
    assert report["headers"]["periodic_task_name"] == "job"


def test_a_worker_takes_it_from_the_queue_and_in_the_form_the_entry_names(
    on_redis: Celery, mailbox: Mailbox
) -> None:
    options = {"queue": "aside", "priority": 6, "compression": "zlib", "expires": 600}

    publisher = publisher_of(on_redis, options=options)
    sent = publisher.publish(run(slot=datetime.now(UTC)))  # noqa: TID251

    report = mailbox.find("id", id=sent)
    assert (report["queue"], report["priority"]) == ("aside", 6)
    assert datetime.fromisoformat(report["expires"]) > datetime.now(UTC)  # noqa: TID251


def test_a_worker_takes_a_task_from_the_queue_it_is_routed_to(
    on_redis: Celery, mailbox: Mailbox
) -> None:
    publisher_of(on_redis, task="proj.placed").publish(run())

    assert mailbox.next()["queue"] == "aside"


def test_a_worker_waits_for_the_countdown(on_redis: Celery, mailbox: Mailbox) -> None:
    late = publisher_of(on_redis, args=["late"], options={"countdown": 3})
    soon = publisher_of(on_redis, args=["soon"])

    late.publish(run())
    soon.publish(run())

    assert [mailbox.next()["args"] for _ in range(2)] == [["soon"], ["late"]]


def test_a_worker_discards_what_has_expired(on_redis: Celery, mailbox: Mailbox) -> None:
    past = datetime.now(UTC) - timedelta(minutes=1)  # noqa: TID251
    publisher_of(on_redis, args=["old"], options={"expires": past}).publish(run())
    publisher_of(on_redis, args=["new"]).publish(run())

    assert mailbox.next()["args"] == ["new"]
    assert mailbox.is_empty()


def test_a_worker_hears_through_a_broker_that_is_a_folder(
    in_a_folder: Celery, mailbox: Mailbox
) -> None:
    sent = publisher_of(in_a_folder, args=[1]).publish(run())

    report = mailbox.next()
    assert (report["id"], report["anarchon"]["job"]) == (sent, "job")


async def test_slots_under_a_second_reach_a_worker_once_each(
    on_redis: Celery, mailbox: Mailbox
) -> None:
    on_redis.conf.beat_schedule = {"quick": {"task": "proj.note", "schedule": 0.25}}
    backend = MemoryBackend()
    fleet = [scheduler_for(on_redis, store=backend, name=str(n)) for n in range(3)]

    for scheduler in fleet:
        await scheduler.start()
    reports = await _read(mailbox, 6)
    for scheduler in fleet:
        await scheduler.stop()

    while not mailbox.is_empty():
        reports.append(mailbox.next())
    slots = sorted(datetime.fromisoformat(report["anarchon"]["slot"]) for report in reports)
    steps = {later - earlier for earlier, later in pairwise(slots)}
    assert steps == {timedelta(milliseconds=250)}
    assert {report["anarchon"]["attempt"] for report in reports} == {1}


async def _read(mailbox: Mailbox, count: int) -> list[dict[str, Any]]:
    return [await asyncio.to_thread(mailbox.next) for _ in range(count)]
