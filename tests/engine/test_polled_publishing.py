"""Polled jobs that publish: their messages are sent, and followed, like any other."""

import pytest

from anarchon.clock import Clock
from anarchon.run import RunState
from anarchon.scheduler import Scheduler
from anarchon.testing import Fleet, ManualClock
from tests.engine.bodies import slot
from tests.engine.brokers import Broker, without_threads
from tests.engine.test_polled import each


@pytest.fixture
def broker() -> Broker:
    return Broker(ManualClock())


async def test_every_due_moment_is_published_once(broker: Broker) -> None:
    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.add("send", each(10), broker, overlap="allow")

    async with Fleet(3, declare, clock=broker.clock) as fleet:
        without_threads(fleet)
        await fleet.clock.advance(61)

    assert len(broker.sent) == 6


async def test_a_tracked_one_waits_for_its_worker_and_is_not_sent_again(broker: Broker) -> None:
    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.add("send", each(60), broker, track=True, start_within="10m", jitter=0)

    async with Fleet(3, declare, clock=broker.clock) as fleet:
        without_threads(fleet)
        await fleet.clock.advance(9 * 60)
        history = await fleet.history("send")

    assert len(broker.sent) == 1
    assert [a.state for a in history] == [RunState.QUEUED, *[RunState.SKIPPED] * 8]


async def test_what_nobody_began_in_time_ends_and_the_next_due_moment_is_sent(
    broker: Broker,
) -> None:
    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.add("send", each(60), broker, track=True, start_within="90s", jitter=0)

    async with Fleet(2, declare, clock=broker.clock) as fleet:
        without_threads(fleet)
        await fleet.clock.advance(185)
        history = await fleet.history("send")

    assert [ctx.slot for _, ctx in broker.sent] == [slot(60), slot(180)]
    assert [a.state for a in history] == [RunState.EXPIRED, RunState.SKIPPED, RunState.QUEUED]


async def test_a_message_that_cannot_be_sent_is_given_up_and_the_next_is_due_in_time(
    broker: Broker,
) -> None:
    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.add("send", each(10), broker, overlap="allow", jitter=0)

    async with Fleet(2, declare, clock=broker.clock) as fleet:
        without_threads(fleet)
        await fleet.clock.advance(5)
        broker.down = True
        await fleet.clock.advance(20)
        broker.down = False
        await fleet.clock.advance(60)
        history = await fleet.history("send")

    assert history[0].state is RunState.FAILED
    assert len({ctx.slot for _, ctx in broker.sent}) == len(broker.sent) >= 6
