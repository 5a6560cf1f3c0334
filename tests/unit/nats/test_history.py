"""What the history costs: it is bounded, and a reader does not read all there is."""

from __future__ import annotations

from datetime import timedelta

import pytest

from anarchon.backends.nats import history
from anarchon.backends.nats.records import Line
from anarchon.clock import MILLISECOND, SystemClock
from anarchon.run import RunState
from anarchon_contract.claims.questions import SECOND, ended
from tests.unit.nats.admin import NAMES


@pytest.fixture
def lines(monkeypatch):
    """What is read, line by line."""
    read: list[bytes] = []

    class Counting(Line):
        @classmethod
        def read(cls, body):
            read.append(body)
            return super().read(body)

    monkeypatch.setattr(history, "Line", Counting)
    return read


async def test_the_server_bounds_the_history_of_each_job(admin, ask, due):
    await ask.claim(due)

    known = await admin.config(NAMES.history)

    assert (known["max_msgs_per_subject"], known["discard"]) == (2000, "old")
    assert known["max_age"] == timedelta(days=30) // MILLISECOND * 10**6


async def test_a_job_that_keeps_more_makes_room(admin, ask, due):
    await ask.save(ended(due), keep=5000)
    await ask.save(ended(due), keep=10)

    assert (await admin.config(NAMES.history))["max_msgs_per_subject"] == 10_000


async def test_room_that_may_not_be_made_is_said_once(admin, ask, due, caplog):
    await admin.update(NAMES.history, sealed=True)

    with caplog.at_level("WARNING", logger="anarchon.backends.nats"):
        for _ in range(2):
            with pytest.raises(Exception, match="sealed"):
                await ask.save(ended(due), keep=5000)


async def test_a_reader_goes_back_only_until_there_is_enough(ask, lines, monkeypatch):
    monkeypatch.setattr(history, "_BACK", (timedelta(seconds=0.5), None))
    for count in range(5):
        await ask.claim((await ask.time()) - MILLISECOND, f"old {count}")
    await SystemClock().sleep(0.6)
    newest = await ask.time() - MILLISECOND
    await ask.claim(newest, "new")

    told = await ask.history(limit=1)

    assert [one.slot for one in told] == [
        newest.replace(microsecond=newest.microsecond // 1000 * 1000)
    ]
    assert len(lines) < 5
    assert len(await ask.history(limit=6)) == 6


async def test_an_old_slot_that_ended_just_now_hides_no_newer_one(ask, due, monkeypatch):
    """The reader starts behind the newer one's only line, and must not stop there."""
    monkeypatch.setattr(history, "_BACK", (timedelta(seconds=0.5), None))
    newer = due + 30 * SECOND
    await ask.claim(due, "a")
    await ask.claim(newer, "b")
    await SystemClock().sleep(0.6)
    await ask.save(ended(due, RunState.FAILED))

    told = await ask.history(limit=1)

    assert [one.slot for one in told] == [newer]


async def test_one_job_is_read_without_the_others(ask, due, lines):
    for count in range(20):
        await ask.claim(due, "a", job=f"job-{count}")

    assert len(await ask.history("job-7")) == 1
    assert len(lines) == len(history._BACK)


async def test_readers_leave_nothing_on_the_server(admin, ask, due):
    await ask.claim(due)
    await ask.history()

    assert (await admin.api(f"CONSUMER.NAMES.{NAMES.history}")).get("consumers") in (None, [])
