"""Whatever dies, freezes or gets lost around the send, a tracked run is begun once an attempt."""

import asyncio
from functools import partial

import pytest

from anarchon.clock import Clock
from anarchon.events import EventKind
from anarchon.run import RunContext, RunState
from anarchon.scheduler import Scheduler
from anarchon.schedules import Every
from anarchon.testing import Fleet, ManualClock, Member
from tests.engine.bodies import slot
from tests.engine.brokers import Broker, InLine, Worker, tracked_job, without_threads


@pytest.fixture
def broker() -> Broker:
    return Broker(ManualClock())


def publisher_of(fleet: Fleet, ctx: RunContext) -> Member:
    return fleet.member_of(ctx.instance)


def attempts_sent(broker: Broker) -> list[int]:
    return [ctx.attempt for _, ctx in broker.sent]


def looked(fleet: Fleet, times: int) -> bool:
    return fleet[0].faults.calls["claim"] >= times


async def states(fleet: Fleet) -> list[RunState]:
    return [a.state for a in await fleet.history("send")]


async def test_a_worker_may_be_faster_than_the_mark(broker: Broker) -> None:
    async with Fleet(3, tracked_job(broker), clock=broker.clock) as fleet:
        without_threads(fleet)
        worker = Worker(fleet)
        broker.after = lambda ctx: worker.begin(ctx)
        await fleet.clock.advance_to(slot(601))
        [(_, ctx)] = broker.sent
        assert await states(fleet) == [RunState.RUNNING]
        await worker.keep(ctx, 12)
        assert worker.finish(ctx)
        await fleet.clock.advance(60)

        troubles = [*fleet.told(EventKind.LEASE_LOST), *fleet.told(EventKind.ERROR)]
        assert await states(fleet) == [RunState.SUCCESS]
    assert attempts_sent(broker) == [1]
    assert troubles == []


async def test_a_mark_whose_reply_gets_lost_is_asked_for_again(broker: Broker) -> None:
    async with Fleet(2, tracked_job(broker), clock=broker.clock) as fleet:
        without_threads(fleet)
        broker.after = lambda ctx: publisher_of(fleet, ctx).faults.loses.update(renew=1)
        await fleet.clock.advance_to(slot(601))
        assert publisher_of(fleet, broker.sent[0][1]).faults.calls["renew"] == 2
        await fleet.clock.advance(60)

        assert await states(fleet) == [RunState.QUEUED]
    assert attempts_sent(broker) == [1]


async def test_a_mark_gets_through_when_the_store_is_back_though_the_lease_has_lapsed(
    broker: Broker,
) -> None:
    async with Fleet(1, tracked_job(broker), clock=broker.clock) as fleet:
        without_threads(fleet)
        faults = fleet[0].faults

        def cut(ctx: RunContext) -> None:
            faults.away = True

        broker.after = cut
        await fleet.clock.advance_to(slot(620))
        assert await states(fleet) == [RunState.CLAIMED]
        faults.away = False
        await fleet.clock.advance(60)

        assert await states(fleet) == [RunState.QUEUED]
        assert Worker(fleet).do(broker.sent[0][1])
    assert attempts_sent(broker) == [1]


async def test_a_backup_sends_again_what_could_not_be_marked_and_one_of_both_is_begun(
    broker: Broker,
) -> None:
    """G12: the store is away for the publisher only."""
    async with Fleet(2, tracked_job(broker), clock=broker.clock) as fleet:
        without_threads(fleet)

        def cut(ctx: RunContext) -> None:
            publisher_of(fleet, ctx).faults.away = ctx.attempt == 1

        broker.after = cut
        await fleet.clock.advance_to(slot(600 + 15 + 2 * 5 + 1))
        [(_, first), (_, second)] = broker.sent
        publisher_of(fleet, first).faults.away = False
        await fleet.clock.advance(30)

        worker = Worker(fleet)
        assert not worker.begin(first, nonce="old")
        assert worker.begin(second, nonce="new")
        assert await states(fleet) == [RunState.LOST, RunState.RUNNING]
    assert (first.attempt, second.attempt) == (1, 2)
    assert first.token != second.token
    assert first.fence < second.fence


async def test_a_publisher_frozen_between_send_and_mark_is_replaced_and_marks_nothing(
    broker: Broker,
) -> None:
    """G4, G12."""
    async with Fleet(2, tracked_job(broker), clock=broker.clock) as fleet:
        without_threads(fleet)

        def freeze(ctx: RunContext) -> None:
            if ctx.attempt == 1:
                publisher_of(fleet, ctx).freeze()

        broker.after = freeze
        await fleet.clock.advance_to(slot(600 + 15 + 2 * 5 + 1))
        [(_, first), (_, second)] = broker.sent
        worker = Worker(fleet)
        assert worker.begin(second)
        publisher_of(fleet, first).thaw()
        await worker.keep(second, 6)

        assert not worker.begin(first, nonce="old")
        assert await states(fleet) == [RunState.LOST, RunState.RUNNING]
    assert attempts_sent(broker) == [1, 2]


async def test_a_publisher_frozen_between_claim_and_send_sends_nothing_when_it_thaws(
    broker: Broker,
) -> None:
    pool = InLine()
    async with Fleet(2, tracked_job(broker), clock=broker.clock) as fleet:
        without_threads(fleet, pool)
        await fleet.clock.advance_to(slot(600.1))
        [start] = fleet.told(EventKind.START)
        frozen = fleet.member_of(start.instance)
        frozen.freeze()
        await fleet.clock.advance(15 + 2 * 5 + 1)
        frozen.thaw()
        pool.work_off()
        await fleet.clock.advance(60)
        pool.work_off()
        await fleet.clock.advance(1)

        [(_, ctx)] = broker.sent
        assert ctx.attempt == 2
        assert ctx.instance != frozen.scheduler.instance
        assert Worker(fleet).do(ctx)


async def test_a_run_that_was_claimed_before_its_job_was_tracked_is_sent_as_it_was_claimed(
    broker: Broker,
) -> None:
    """A deploy turns tracking on: no worker could begin a message that says so of this run."""
    tracked = iter([False, True])

    def declare(scheduler: Scheduler, clock: Clock) -> object:
        return tracked_job(broker, track=next(tracked))(scheduler, clock)

    pool = InLine()
    async with Fleet(1, declare, clock=broker.clock) as fleet:
        without_threads(fleet, pool)
        await fleet.clock.advance_to(slot(600.1))
        fleet[0].kill()
        await fleet.add()
        without_threads(fleet, pool)
        await fleet.clock.advance(40)
        pool.work_off()
        await fleet.clock.advance(1)

        [(_, ctx)] = broker.sent
        assert (ctx.attempt, ctx.tracking) == (2, None)
        assert (await states(fleet))[-1] is RunState.PUBLISHED


async def test_a_stop_between_claim_and_send_hands_the_run_over_unbegun(broker: Broker) -> None:
    """G7; also where one attempt is all there may be."""
    pool = InLine()
    async with Fleet(2, tracked_job(broker, max_attempts=1), clock=broker.clock) as fleet:
        without_threads(fleet, pool)
        await fleet.clock.advance_to(slot(600.1))
        [start] = fleet.told(EventKind.START)
        leaver = fleet.member_of(start.instance)
        stopping = asyncio.create_task(leaver.scheduler.stop())
        await fleet.clock.advance(1)
        pool.work_off()
        await fleet.clock.advance_until(stopping.done)
        await fleet.clock.advance(2 * 5 + 1)
        pool.work_off()
        await fleet.clock.advance(1)

        assert await states(fleet) == [RunState.INTERRUPTED, RunState.QUEUED]
    assert attempts_sent(broker) == [2]


async def test_a_message_whose_confirmation_got_lost_is_sent_again_and_begun_once(
    broker: Broker,
) -> None:
    """G12."""
    broker.unconfirmed = 1
    async with Fleet(2, tracked_job(broker), clock=broker.clock) as fleet:
        without_threads(fleet)
        await fleet.clock.advance_to(slot(605))
        [(_, first), (_, second)] = broker.sent
        [published] = fleet.told(EventKind.PUBLISHED)

        worker = Worker(fleet)
        assert worker.begin(first, nonce="one")
        assert not worker.begin(second, nonce="other")
    assert first.token == second.token
    assert published.reason == "repeated"


async def test_a_message_that_was_begun_unconfirmed_is_left_to_its_worker(broker: Broker) -> None:
    async with Fleet(2, tracked_job(broker), clock=broker.clock) as fleet:
        without_threads(fleet)
        worker = Worker(fleet)

        def begin_and_go(ctx: RunContext) -> None:
            assert worker.begin(ctx)
            broker.down = True

        broker.unconfirmed, broker.after = 1, begin_and_go
        await fleet.clock.advance_to(slot(601))
        [(_, ctx)] = broker.sent
        await worker.keep(ctx, 6)
        broker.down = False
        await fleet.clock.advance(5)
        assert worker.finish(ctx)
        await fleet.clock.advance(60)

        [lost] = fleet.told(EventKind.LEASE_LOST)
        assert await states(fleet) == [RunState.SUCCESS]
        assert fleet.told(EventKind.PUBLISHED) == fleet.told(EventKind.FAILURE) == []
    assert attempts_sent(broker) == [1]
    assert lost.detail is not None
    assert "worker" in lost.detail


@pytest.mark.parametrize("begun_after", [0, 3, 7, 12, 16, 19, 22, 25])
@pytest.mark.parametrize("renewals", [0, 1, 4])
async def test_what_a_dead_worker_left_is_sent_again(
    broker: Broker, begun_after: int, renewals: int
) -> None:
    """G6: at whatever moment between two looks it was begun."""
    async with Fleet(3, tracked_job(broker), clock=broker.clock) as fleet:
        without_threads(fleet)
        worker = Worker(fleet)
        await fleet.clock.advance_to(slot(600.5 + begun_after))
        [(_, first)] = broker.sent
        assert worker.begin(first)
        for _ in range(renewals):
            await fleet.clock.advance(5)
            assert worker.renew(first)
        await fleet.clock.advance(15 + 2 * 5 + 0.5)

        [_, (_, second)] = broker.sent
        assert await states(fleet) == [RunState.LOST, RunState.QUEUED]
        assert not worker.finish(first)
        assert Worker(fleet, "pod 2").do(second)
    assert second.attempt == 2
    assert second.fence > first.fence
    assert second.tracking is not None
    assert second.tracking.start_by > slot(600) + 3600 * (slot(1) - slot(0))


async def test_what_was_begun_right_after_a_look_and_died_at_once_is_sent_again_in_time(
    broker: Broker,
) -> None:
    """G6: what waits is looked at less often, and still in time."""
    async with Fleet(1, tracked_job(broker, "1h"), clock=broker.clock) as fleet:
        without_threads(fleet)
        await fleet.clock.advance_to(slot(3600.5))
        calls = fleet[0].faults.calls
        for looks in range(calls["claim"] + 1, calls["claim"] + 4):
            await fleet.clock.advance_until(partial(looked, fleet, looks), within=26)
        assert Worker(fleet).begin(broker.sent[0][1])
        await fleet.clock.advance(15 + 2 * 5 + 0.1)

    assert attempts_sent(broker) == [1, 2]


async def test_a_job_that_kills_its_workers_is_given_up(broker: Broker) -> None:
    async with Fleet(2, tracked_job(broker, max_attempts=2), clock=broker.clock) as fleet:
        without_threads(fleet)
        worker = Worker(fleet)
        broker.after = lambda ctx: worker.begin(ctx)
        await fleet.clock.advance_to(slot(600 + 120))

        assert await states(fleet) == [RunState.LOST, RunState.LOST]
    assert attempts_sent(broker) == [1, 2]


async def test_what_could_not_be_sent_in_time_has_failed(broker: Broker) -> None:
    """Also where others had tried before: nobody had begun it."""
    broker.down = True
    declare = tracked_job(broker, max_late="40s")
    async with Fleet(2, declare, clock=broker.clock) as fleet:
        without_threads(fleet)
        await fleet.clock.advance_to(slot(700))

        *handed_over, last = await fleet.history("send")
    assert {a.state for a in handed_over} == {RunState.INTERRUPTED}
    assert last.state is RunState.FAILED
    assert "not published in time" in (last.detail or "")


async def test_what_a_worker_had_begun_is_sent_again_however_late(broker: Broker) -> None:
    """Its slot was in time; and the broker may be away as long as somebody may begin it."""
    declare = tracked_job(broker, max_late="40s", start_within="10m", overlap="allow")
    async with Fleet(2, declare, clock=broker.clock) as fleet:
        without_threads(fleet)
        worker = Worker(fleet)
        await fleet.clock.advance_to(slot(601))
        assert worker.begin(broker.sent[0][1])
        broker.down = True
        await fleet.clock.advance(180)
        broker.down = False
        await fleet.clock.advance(30)

        ctx = broker.sent[1][1]
        assert (await fleet.history("send"))[-1].state is RunState.QUEUED
        assert worker.begin(ctx, nonce="again")
    assert ctx.slot == slot(600)


async def test_a_run_that_the_store_lost_is_sent_anew_and_the_old_message_starts_nothing(
    broker: Broker,
) -> None:
    async with Fleet(2, tracked_job(broker), clock=broker.clock) as fleet:
        without_threads(fleet)
        await fleet.clock.advance_to(slot(599))
        saved = fleet.backend.save()
        await fleet.clock.advance_to(slot(601))
        fleet.backend.restore(saved)
        await fleet.clock.advance(30)

        [(_, first), (_, second)] = broker.sent
        worker = Worker(fleet)
        assert not worker.begin(first, nonce="old")
        assert worker.begin(second, nonce="new")
    assert first.fence < second.fence


async def test_a_lone_place_for_publishing_is_enough_to_look_at_a_long_backlog(
    broker: Broker,
) -> None:
    """G6: the looks of one moment take turns, and none is put off for good."""

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        for number in range(30):
            scheduler.add(f"send {number}", Every("10m"), broker, jitter=0, track=True)

    async with Fleet(1, declare, clock=broker.clock, max_publishing=1) as fleet:
        without_threads(fleet)
        await fleet.clock.advance_to(slot(605))
        worker = Worker(fleet)
        assert all(worker.begin(ctx) for _, ctx in broker.sent)
        await fleet.clock.advance(15 + 2 * 5 + 3)

    assert sorted(attempts_sent(broker)) == [1] * 30 + [2] * 30
