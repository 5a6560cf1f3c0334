"""What waits in the broker costs few looks, and is told of where no worker begins it."""

import re
from datetime import timedelta

import pytest

from anarchon.clock import Clock
from anarchon.scheduler import Scheduler
from anarchon.schedules import Every
from anarchon.testing import Fleet, ManualClock
from tests.engine.bodies import slot
from tests.engine.brokers import Broker, Worker, tracked_job, without_threads


@pytest.fixture
def broker() -> Broker:
    return Broker(ManualClock())


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    told = [r.getMessage() for r in caplog.records if r.name == "anarchon.scheduler"]
    return [line for line in told if "no worker has begun it" in line]


async def test_a_run_that_waits_for_a_minute_is_told_of_by_who_sent_it(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    async with Fleet(3, tracked_job(broker), clock=broker.clock) as fleet:
        without_threads(fleet)
        await fleet.clock.advance_to(slot(659))
        assert warnings(caplog) == []
        await fleet.clock.advance_to(slot(600 + 60 + 25 + 1))

        [line] = warnings(caplog)
        await fleet.clock.advance_to(slot(1195))
    assert "job=send slot=2026-01-01T00:10:00.000Z" in line
    assert re.search(r"waited=1m\d* ?", line)
    assert "until=2026-01-01T01:10:00.000Z" in line
    assert "start workers" in line
    assert len(warnings(caplog)) == 1


async def test_a_job_without_workers_is_told_of_once_and_not_at_each_slot(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    declare = tracked_job(broker, "2m", start_within="110s")
    async with Fleet(1, declare, clock=broker.clock) as fleet:
        without_threads(fleet)
        await fleet.clock.advance_to(slot(1200))

    assert len(broker.sent) == 10
    assert len(warnings(caplog)) == 1


async def test_a_job_is_told_of_again_when_its_workers_came_and_went(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    async with Fleet(1, tracked_job(broker), clock=broker.clock) as fleet:
        without_threads(fleet)
        worker = Worker(fleet)
        for start in (600, 1200):
            await fleet.clock.advance_to(slot(start + 90))
            assert worker.do(broker.sent[-1][1])
        await fleet.clock.advance(60)

    assert len(warnings(caplog)) == 2


async def test_a_task_that_waits_for_its_retry_has_been_begun(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    """Between two looks it may be begun, fail, and wait again."""
    async with Fleet(1, tracked_job(broker), clock=broker.clock) as fleet:
        without_threads(fleet)
        worker = Worker(fleet)
        await fleet.clock.advance_to(slot(600.5))
        [(_, ctx)] = broker.sent
        assert worker.begin(ctx)
        assert worker.retry(ctx, timedelta(minutes=5))
        await fleet.clock.advance(200)

    assert warnings(caplog) == []


async def test_what_is_begun_in_time_is_not_told_of(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    async with Fleet(2, tracked_job(broker), clock=broker.clock) as fleet:
        without_threads(fleet)
        worker = Worker(fleet)
        await fleet.clock.advance_to(slot(640))
        [(_, ctx)] = broker.sent
        assert worker.begin(ctx)
        await worker.keep(ctx, 20)
        assert worker.finish(ctx)
        await fleet.clock.advance(30)

    assert warnings(caplog) == []


async def test_an_hour_s_backlog_of_many_jobs_costs_a_call_every_lease_and_heartbeat(
    broker: Broker,
) -> None:
    """All that waits is asked about in the same calls."""

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        for number in range(100):
            scheduler.add(
                f"send {number}",
                Every("1d"),
                broker,
                jitter=0,
                track=True,
                start_within="2h",
                lease="15s",
                heartbeat="5s",
            )

    day = timedelta(days=1).total_seconds()
    async with Fleet(2, declare, clock=broker.clock) as fleet:
        without_threads(fleet)
        await fleet.clock.advance_to(slot(day + 120))
        before = [member.faults.calls.total() for member in fleet.members]
        await fleet.clock.advance(3600)

        calls = [m.faults.calls.total() - b for m, b in zip(fleet.members, before, strict=True)]
        waiting = [len(await fleet.history(f"send {number}")) for number in range(100)]
    assert len(broker.sent) == 100
    assert waiting == [1] * 100
    assert all(count <= 3600 / (15 + 5) + 10 for count in calls)
