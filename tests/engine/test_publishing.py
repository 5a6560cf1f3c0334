"""A run that is handed to a broker ends when the broker has it, and once."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from anarchon.clock import Clock
from anarchon.events import EventKind
from anarchon.run import RunContext, RunState
from anarchon.scheduler import Scheduler
from anarchon.schedules import Every
from anarchon.testing import Fleet, ManualClock
from tests.engine.bodies import slot, slots
from tests.engine.brokers import Broker, InLine, without_threads


@pytest.fixture
def broker() -> Broker:
    return Broker(ManualClock())


def job(
    broker: Broker, interval: str = "10s", **options: Any
) -> Callable[[Scheduler, Clock], object]:
    def declare(scheduler: Scheduler, clock: Clock) -> object:
        settled = {"jitter": 0, "overlap": "allow", **options}
        return scheduler.add("send", Every(interval), broker, **settled)

    return declare


def sent_slots(broker: Broker) -> list[Any]:
    return [ctx.slot for _, ctx in broker.sent]


async def test_each_slot_is_published_once_and_recorded_with_its_message(broker: Broker) -> None:
    async with Fleet(3, job(broker), clock=broker.clock) as fleet:
        without_threads(fleet)
        await fleet.clock.advance_to(slot(105))

        history = await fleet.history("send")
        published = fleet.told(EventKind.PUBLISHED)
    assert sent_slots(broker) == slots(10, 100, 10)
    assert {a.state for a in history} == {RunState.PUBLISHED}
    assert [a.detail for a in history] == [f"message {n}" for n in range(1, 11)]
    assert [(e.reason, e.detail) for e in published] == [
        (None, f"message {n}") for n in range(1, 11)
    ]


class _Refusing(Broker):
    """A broker that takes messages together, and refuses one of them when it has the others."""

    is_held_back = True

    @property
    def way(self) -> "_Refusing":
        return self

    @contextmanager
    def together(self) -> Iterator["_Refusing"]:
        began = len(self.sent)
        yield self
        if any(ctx.job == "bad" for _, ctx in self.sent[began:]):
            raise ConnectionError("no permission for one of these queues")


async def test_a_message_that_the_broker_refuses_has_others_sent_twice_at_its_first_try_only() -> (
    None
):
    broker = _Refusing(ManualClock())

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        for name in ("bad", *(f"good {number}" for number in range(8))):
            scheduler.add(name, Every("10s"), broker, jitter=0, overlap="allow")

    async with Fleet(1, declare, clock=broker.clock) as fleet:
        thread = InLine()
        without_threads(fleet, thread)
        await fleet.clock.advance_to(slot(11))
        thread.work_off()
        # one waits for the thread, and the others for that one, with those of the next slot
        await fleet.clock.advance_to(slot(21))
        for _ in range(30):
            thread.work_off()
            await fleet.clock.advance(0.1)

    good = Counter((ctx.job, ctx.slot) for _, ctx in broker.sent if ctx.job != "bad")
    assert list(good.values()) == [2] * 16


async def test_a_run_is_claimed_until_the_broker_has_it(broker: Broker) -> None:
    broker.down = True
    async with Fleet(1, job(broker, "1m"), clock=broker.clock) as fleet:
        without_threads(fleet)
        await fleet.clock.advance_to(slot(61))

        [attempt] = await fleet.history("send")
        broker.down = False
        await fleet.clock.advance(10)
    assert attempt.state is RunState.CLAIMED


async def test_a_publication_is_tried_again_until_the_broker_is_back(broker: Broker) -> None:
    """It may have arrived the first time: the event says so."""
    broker.down = True
    async with Fleet(1, job(broker, "1m"), clock=broker.clock) as fleet:
        without_threads(fleet)
        await fleet.clock.advance_to(slot(68))
        broker.down = False
        await fleet.clock.advance_to(slot(74))

        [published] = fleet.told(EventKind.PUBLISHED)
        [error] = fleet.told(EventKind.ERROR)
        [attempt] = await fleet.history("send")
    assert sent_slots(broker) == [slot(60)]
    assert published.reason == "repeated"
    assert isinstance(error.error, ConnectionError)
    assert (attempt.attempt, attempt.state) == (1, RunState.PUBLISHED)
    assert 4 <= broker.tries <= 12


async def test_a_lost_confirmation_is_published_again_under_the_same_token(
    broker: Broker,
) -> None:
    broker.unconfirmed = 1
    async with Fleet(2, job(broker, "1m"), clock=broker.clock) as fleet:
        without_threads(fleet)
        await fleet.clock.advance_to(slot(65))

        reasons = [e.reason for e in fleet.told(EventKind.PUBLISHED)]
    assert sent_slots(broker) == [slot(60), slot(60)]
    assert len({ctx.token for _, ctx in broker.sent}) == 1
    assert reasons == ["repeated"]


@pytest.mark.parametrize("max_attempts", [2, 1])
async def test_after_one_lease_an_instance_with_a_better_way_to_the_broker_may_try(
    broker: Broker, max_attempts: int
) -> None:
    """A release of what was not published is no attempt."""
    declare = job(broker, "10m", lease="15s", max_attempts=max_attempts)
    async with Fleet(2, declare, clock=broker.clock) as fleet:
        without_threads(fleet)
        await fleet.clock.advance_to(slot(599))
        fleet[1].clock.freeze()
        broker.cut_off.add(fleet[0].scheduler.instance)
        await fleet.clock.advance_to(slot(601))
        fleet[1].clock.thaw()
        # whoever released it looks at it too: now and then it wins it once more
        await fleet.clock.advance_until(lambda: broker.sent, within=280)
        await fleet.clock.advance(1)

        [(_, ctx)] = broker.sent
        assert ctx.instance == fleet[1].scheduler.instance
        *handed_over, last = [a.state for a in await fleet.history("send")]
        assert {*handed_over} == {RunState.INTERRUPTED}
        assert last is RunState.PUBLISHED


async def test_a_slot_that_could_not_be_published_in_time_has_failed(broker: Broker) -> None:
    broker.down = True
    declare = job(broker, "10m", max_late="40s")
    async with Fleet(2, declare, clock=broker.clock) as fleet:
        without_threads(fleet)
        await fleet.clock.advance_to(slot(720))

        history = await fleet.history("send")
        [failure] = fleet.told(EventKind.FAILURE)
    assert history[-1].state is RunState.FAILED
    assert history[-1].detail is not None
    assert "not published in time" in history[-1].detail
    assert failure.detail == history[-1].detail
    assert broker.sent == []


async def test_nothing_is_sent_once_trust_has_lapsed(broker: Broker) -> None:
    """It waited in line for the broker: what was true at the claim is not any more."""
    pool = InLine()
    async with Fleet(1, job(broker, "10m", lease="15s"), clock=broker.clock) as fleet:
        without_threads(fleet, pool)
        await fleet.clock.advance_to(slot(600.01))
        # time goes by, and the keeper had no chance to notice
        broker.clock._gone += 14_000_000
        assert pool.work_off() == 1
        assert broker.sent == []

        without_threads(fleet)
        await fleet.clock.advance(20)
        history = await fleet.history("send")
    assert [ctx.attempt for _, ctx in broker.sent] == [2]
    assert [a.state for a in history][-1] is RunState.PUBLISHED


async def test_nothing_is_sent_once_a_stop_has_begun(broker: Broker) -> None:
    pool = InLine()
    async with Fleet(1, job(broker, "10m"), clock=broker.clock) as fleet:
        without_threads(fleet, pool)
        await fleet.clock.advance_to(slot(600.01))
        stopping = asyncio.create_task(fleet[0].scheduler.stop())
        await fleet.clock.advance(1)
        assert pool.work_off() == 1
        await fleet.clock.advance_until(stopping.done)

        [attempt] = await fleet.history("send")
    assert broker.sent == []
    assert attempt.state is RunState.INTERRUPTED


async def test_an_instance_killed_before_the_send_is_replaced(broker: Broker) -> None:
    """G6."""
    broker.down = True
    async with Fleet(2, job(broker, "10m"), clock=broker.clock) as fleet:
        without_threads(fleet)
        await fleet.clock.advance_to(slot(601))
        [start] = fleet.told(EventKind.START)
        next(m for m in fleet.members if m.scheduler.instance == start.instance).kill()
        broker.down = False
        await fleet.clock.advance(15 + 2 * 5 + 1)

    assert [ctx.attempt for _, ctx in broker.sent] == [2]


async def test_a_stop_hands_over_what_is_not_published_yet(broker: Broker) -> None:
    """G7."""
    broker.down = True
    async with Fleet(2, job(broker, "10m"), clock=broker.clock) as fleet:
        without_threads(fleet)
        await fleet.clock.advance_to(slot(601))
        [start] = fleet.told(EventKind.START)
        leaver = next(m for m in fleet.members if m.scheduler.instance == start.instance)
        await fleet.stop(leaver)
        broker.down = False
        await fleet.clock.advance(2 * 5 + 1)

        states = [a.state for a in await fleet.history("send")]
    assert [ctx.attempt for _, ctx in broker.sent] == [2]
    assert states == [RunState.INTERRUPTED, RunState.PUBLISHED]


async def test_what_a_publisher_returns_counts_as_sent_also_if_it_is_no_text(
    broker: Broker,
) -> None:
    class Forgetful(Broker):
        def publish(self, ctx: RunContext) -> str:
            super().publish(ctx)
            return None  # type: ignore[return-value]

    forgetful = Forgetful(broker.clock)
    async with Fleet(1, job(forgetful, "1m"), clock=broker.clock) as fleet:
        without_threads(fleet)
        await fleet.clock.advance_to(slot(119))

    assert sent_slots(forgetful) == [slot(60)]


async def test_a_publisher_that_exits_the_process_does_not(broker: Broker) -> None:
    tries = []

    def leave(ctx: RunContext) -> None:
        tries.append(ctx)
        if len(tries) == 1:
            raise SystemExit(1)

    broker.before = leave
    async with Fleet(1, job(broker, "1m"), clock=broker.clock) as fleet:
        without_threads(fleet)
        await fleet.clock.advance_to(slot(65))

    assert sent_slots(broker) == [slot(60)]


async def test_what_is_due_beyond_max_publishing_is_taken_by_others(broker: Broker) -> None:
    """What an instance cannot start at once it does not claim."""

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        for number in range(30):
            scheduler.add(f"send {number}", Every("10m"), broker, jitter=0, overlap="allow")

    async with Fleet(3, declare, clock=broker.clock, max_publishing=10) as fleet:
        without_threads(fleet)
        await fleet.clock.advance_to(slot(599))
        for member in fleet.members:
            broker.cut_off.add(member.scheduler.instance)
        await fleet.clock.advance_to(slot(603))
        starts = [e.instance for e in fleet.told(EventKind.START)]
        assert sorted(starts.count(m.scheduler.instance) for m in fleet.members) == [10, 10, 10]

        broker.cut_off.clear()
        await fleet.clock.advance_to(slot(630))
    assert len(sent_slots(broker)) == 30


async def test_published_runs_do_not_hold_back_the_next_slot(broker: Broker) -> None:
    declare = job(broker, "10s", overlap="skip")
    async with Fleet(2, declare, clock=broker.clock) as fleet:
        without_threads(fleet)
        await fleet.clock.advance_to(slot(60.5))

    assert sent_slots(broker) == slots(10, 60, 10)


async def test_a_frozen_publisher_that_had_sent_makes_a_second_message_of_attempt_two(
    broker: Broker,
) -> None:
    """Untracked delivery is at least once: the message says so."""
    async with Fleet(2, job(broker, "10m"), clock=broker.clock) as fleet:
        without_threads(fleet)
        await fleet.clock.advance_to(slot(599))
        frozen = fleet[0]
        fleet[1].clock.freeze()

        def freeze(ctx: RunContext) -> None:
            if ctx.attempt == 1:
                frozen.faults.silent = True

        broker.before = freeze
        await fleet.clock.advance_to(slot(601))
        frozen.clock.freeze()
        fleet[1].clock.thaw()
        await fleet.clock.advance(15 + 2 * 5 + 1)
        frozen.thaw()
        await fleet.clock.advance(30)

        history = await fleet.history("send")
        refused = fleet.told(EventKind.LEASE_LOST)
    assert [ctx.attempt for _, ctx in broker.sent] == [1, 2]
    assert [a.state for a in history] == [RunState.LOST, RunState.PUBLISHED]
    assert [e.attempt for e in refused] == [1]
    assert broker.sent[1][1].slot - broker.sent[0][1].slot == timedelta(0)
