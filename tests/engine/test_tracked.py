"""A published run that is tracked goes on after the send, until a worker has ended it."""

from datetime import timedelta

import pytest

from anarchon.events import EventKind
from anarchon.run import OnStoreError, RunState
from anarchon.testing import Fleet, ManualClock
from tests.engine.bodies import leases_of, slot, slots
from tests.engine.brokers import Broker, Worker, tracked_job, without_threads


@pytest.fixture
def broker() -> Broker:
    return Broker(ManualClock())


async def test_a_message_brings_its_worker_what_the_job_says_of_its_run(broker: Broker) -> None:
    declare = tracked_job(broker, lease="30s", start_within="20m", timeout="5m", overlap="allow")
    async with Fleet(1, declare, clock=broker.clock) as fleet:
        without_threads(fleet)
        await fleet.clock.advance_to(slot(601))

    [(_, ctx)] = broker.sent
    assert ctx.tracking is not None
    assert ctx.tracking.lease == timedelta(seconds=30)
    assert ctx.tracking.start_by == slot(600) + timedelta(minutes=20)
    assert ctx.tracking.on_store_error is OnStoreError.RUN
    assert ctx.tracking.timeout == timedelta(minutes=5)
    assert ctx.deadline is None


async def test_the_time_limit_of_a_message_does_not_limit_its_publication(broker: Broker) -> None:
    """Nor for how long the lease is kept while the broker is away."""
    broker.down = True
    declare = tracked_job(broker, timeout="1s", lease="15s")
    async with Fleet(1, declare, clock=broker.clock) as fleet:
        without_threads(fleet)
        await fleet.clock.advance_to(slot(612))
        broker.down = False
        await fleet.clock.advance(5)

        [published] = fleet.told(EventKind.PUBLISHED)
    assert published.attempt == 1


async def test_a_sent_run_waits_and_is_not_sent_again(broker: Broker) -> None:
    """A backlog is no crash, however many leases it lasts."""
    async with Fleet(3, tracked_job(broker, "1h"), clock=broker.clock) as fleet:
        without_threads(fleet)
        await fleet.clock.advance_to(slot(3600 + 1800))

        [attempt] = await fleet.history("send")
        [published] = fleet.told(EventKind.PUBLISHED)
    assert len(broker.sent) == 1
    assert (attempt.attempt, attempt.state) == (1, RunState.QUEUED)
    assert (published.attempt, published.detail) == (1, "message 1")


async def test_the_worker_ends_the_run_and_no_instance_tells_of_it(broker: Broker) -> None:
    async with Fleet(3, tracked_job(broker), clock=broker.clock) as fleet:
        without_threads(fleet)
        worker = Worker(fleet)
        await fleet.clock.advance_to(slot(630))
        [(_, ctx)] = broker.sent
        assert worker.begin(ctx)
        await worker.keep(ctx, 12)
        assert worker.finish(ctx)
        await fleet.clock.advance(60)

        [attempt] = await fleet.history("send")
        kinds = [e.kind for e in fleet.events if e.kind is not EventKind.SKIP]
    assert len(broker.sent) == 1
    assert attempt.state is RunState.SUCCESS
    assert (attempt.worker, attempt.message) == ("pod 1", "id of first")
    assert (attempt.begun, attempt.ended) == (slot(630), slot(690))
    assert kinds == [EventKind.START, EventKind.PUBLISHED]


async def test_what_waits_holds_back_the_next_slots_until_it_expires(broker: Broker) -> None:
    """G3, G9; the claim that comes after it ends it."""
    declare = tracked_job(broker, "10s", start_within="45s")
    async with Fleet(3, declare, clock=broker.clock) as fleet:
        without_threads(fleet)
        await fleet.clock.advance_to(slot(65))

        history = await fleet.history("send")
        skips = {e.slot for e in fleet.told(EventKind.SKIP) if e.reason == "overlap"}
    assert [ctx.slot for _, ctx in broker.sent] == [slot(10), slot(60)]
    assert [a.state for a in history] == [
        RunState.EXPIRED,
        *[RunState.SKIPPED] * 4,
        RunState.QUEUED,
    ]
    assert skips == set(slots(20, 50, 10))


async def test_what_a_worker_does_holds_back_the_next_slots_until_it_has_ended(
    broker: Broker,
) -> None:
    """G3, G9."""
    async with Fleet(3, tracked_job(broker, "10s"), clock=broker.clock) as fleet:
        without_threads(fleet)
        worker = Worker(fleet)
        await fleet.clock.advance_to(slot(11))
        [(_, ctx)] = broker.sent
        assert worker.begin(ctx)
        await worker.keep(ctx, 5)
        assert worker.finish(ctx)
        await fleet.clock.advance_to(slot(45))

    assert [ctx.slot for _, ctx in broker.sent] == [slot(10), slot(40)]


async def test_what_waits_holds_nothing_back_where_runs_may_overlap(broker: Broker) -> None:
    """And a look ends it when nobody may begin it any more."""
    declare = tracked_job(broker, "10m", start_within="2m", overlap="allow")
    async with Fleet(3, declare, clock=broker.clock) as fleet:
        without_threads(fleet)
        await fleet.clock.advance_to(slot(600 + 120 + 26))

        [attempt] = await fleet.history("send")
        await fleet.clock.advance_to(slot(1201))
    assert attempt.state is RunState.EXPIRED
    assert attempt.ended is not None
    assert slot(720) <= attempt.ended <= slot(720 + 15 + 10)
    assert [ctx.slot for _, ctx in broker.sent] == [slot(600), slot(1200)]


async def test_nobody_begins_a_run_that_has_expired(broker: Broker) -> None:
    """G12."""
    async with Fleet(1, tracked_job(broker, start_within="2m"), clock=broker.clock) as fleet:
        without_threads(fleet)
        await fleet.clock.advance_to(slot(600 + 120))

        assert not Worker(fleet).begin(broker.sent[0][1])


async def test_what_may_not_be_begun_any_more_is_not_sent(broker: Broker) -> None:
    declare = tracked_job(broker, start_within="30s")
    async with Fleet(1, declare, clock=broker.clock) as fleet:
        without_threads(fleet)
        fleet[0].faults.away = True
        await fleet.clock.advance_to(slot(631))
        fleet[0].faults.away = False
        await fleet.clock.advance_to(slot(700))

        reasons = [e.reason for e in fleet.told(EventKind.SKIP)]
    assert broker.sent == []
    assert reasons == ["late"]


async def test_a_stop_leaves_what_was_sent_to_the_broker(broker: Broker) -> None:
    async with Fleet(2, tracked_job(broker), clock=broker.clock) as fleet:
        without_threads(fleet)
        await fleet.clock.advance_to(slot(601))
        [(_, ctx)] = broker.sent
        await fleet.stop(fleet.member_of(ctx.instance))
        await fleet.clock.advance(60)

        [attempt] = await fleet.history("send")
        assert attempt.state is RunState.QUEUED
        assert fleet.told(EventKind.HANDOVER) == []
        assert Worker(fleet).do(ctx)
    assert len(broker.sent) == 1


async def test_an_instance_that_starts_later_takes_over_what_a_worker_left(broker: Broker) -> None:
    """Whoever meets the run watches it, and not only those who met its slot."""
    async with Fleet(1, tracked_job(broker, "1h"), clock=broker.clock) as fleet:
        without_threads(fleet)
        await fleet.clock.advance_to(slot(3600 + 60))
        [(_, ctx)] = broker.sent
        await fleet.stop(fleet[0])
        assert Worker(fleet).begin(ctx)
        await fleet.add()
        without_threads(fleet)
        await fleet.clock.advance(15 + 2 * 5 + 1)

    assert [ctx.attempt for _, ctx in broker.sent] == [1, 2]


async def test_the_lease_of_what_was_sent_is_given_up_before_anything_else(broker: Broker) -> None:
    """A worker may have the run already."""
    kept = []
    async with Fleet(1, tracked_job(broker), clock=broker.clock) as fleet:
        without_threads(fleet)
        keeper = leases_of(fleet[0]).keeper
        fleet[0].scheduler.on(EventKind.PUBLISHED, lambda event: kept.append(len(keeper.held())))
        await fleet.clock.advance_to(slot(601))

    assert kept == [0]
