"""A scheduler on a store that only decides claims: one winner a slot, and nothing after that."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from anarchon.backends.memory_claims import MemoryClaimBackend
from anarchon.clock import Clock
from anarchon.errors import ConfigurationError, OutcomeUnknown, StoreError
from anarchon.events import EventKind
from anarchon.run import Overlap, RunState
from anarchon.scheduler import Scheduler
from anarchon.schedules import Every, Polled
from anarchon.store import Claim, ClaimAnswer, Reply
from anarchon.testing import ClaimFleet, ManualClock
from tests.engine.bodies import Bodies, slot, slots
from tests.engine.brokers import Broker, InLine, without_threads

Declare = Callable[[Scheduler, Clock], object]


def every(bodies: Bodies, interval: str, takes: float = 0, **options: Any) -> Declare:
    def declare(scheduler: Scheduler, clock: Clock) -> object:
        return scheduler.every("sync", interval, bodies.taking(clock, takes), **options)

    return declare


def sending(broker: Broker, interval: str, **options: Any) -> Declare:
    def declare(scheduler: Scheduler, clock: Clock) -> object:
        return scheduler.add("send", Every(interval), broker, jitter=0, **options)

    return declare


@pytest.mark.parametrize("jitter", [0, "500ms"])
async def test_three_instances_run_each_slot_once(bodies: Bodies, jitter: float | str) -> None:
    """G1, G2."""
    async with ClaimFleet(3, every(bodies, "10s", jitter=jitter), clock=bodies.clock) as fleet:
        await fleet.clock.advance(605)

        history = await fleet.history("sync")
    assert bodies.slots() == slots(10, 600, 10)
    assert [(a.slot, a.state) for a in history] == [
        (moment, RunState.SUCCESS) for moment in slots(10, 600, 10)
    ]


async def test_a_slot_is_run_once_though_the_replies_to_its_claim_are_lost(bodies: Bodies) -> None:
    """G1."""
    async with ClaimFleet(2, every(bodies, "10s"), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(5))
        for member in fleet.members:
            member.faults.loses["claim"] = 2
        await fleet.clock.advance_to(slot(19))

    assert bodies.slots() == [slot(10)]


async def test_an_instance_that_comes_back_runs_what_is_not_too_late(bodies: Bodies) -> None:
    async with ClaimFleet(1, every(bodies, "10m"), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(599))
        fleet[0].faults.away = True
        await fleet.clock.advance_to(slot(700))
        fleet[0].faults.away = False
        await fleet.clock.advance_to(slot(710))

        assert bodies.slots() == [slot(600)]


async def test_a_slot_nobody_could_claim_in_time_is_told_as_late(bodies: Bodies) -> None:
    declare = every(bodies, "10m", max_late="1m")
    async with ClaimFleet(1, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(599))
        fleet[0].faults.away = True
        await fleet.clock.advance_to(slot(700))

        assert [e.reason for e in fleet.told(EventKind.SKIP)] == ["late"]
        assert bodies.all == []


@pytest.mark.parametrize("lost", [1000, 1], ids=["all replies", "one, and then it is away"])
async def test_a_slot_that_may_have_been_won_unheard_is_told(
    bodies: Bodies, caplog: pytest.LogCaptureFixture, lost: int
) -> None:
    declare = every(bodies, "10m", max_late="1m")
    async with ClaimFleet(1, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(599))
        fleet[0].faults.loses["claim"] = lost
        await fleet.clock.advance_until(lambda: fleet[0].faults.loses["claim"] < lost)
        fleet[0].faults.away = lost == 1
        await fleet.clock.advance_to(slot(700))

        assert bodies.all == []
    assert "may have been won and is lost" in caplog.text


async def test_a_slot_that_may_have_been_won_is_told_though_the_store_then_refuses_it(
    bodies: Bodies, caplog: pytest.LogCaptureFixture
) -> None:
    async with ClaimFleet(1, every(bodies, "10m"), clock=bodies.clock) as fleet:
        life = fleet[0].scheduler._life
        assert life is not None
        replies: list[StoreError] = [
            OutcomeUnknown("memory://", "the reply was lost"),
            StoreError("memory://", "cannot read the record"),
        ]

        async def failing(claims: Sequence[Claim]) -> Reply[ClaimAnswer]:
            raise replies.pop(0)

        life.dealings.calling._claims._send = failing  # type: ignore[attr-defined]
        await fleet.clock.advance_to(slot(610))

    assert replies == []
    assert "may have been won and is lost" in caplog.text


async def test_what_dies_with_its_winner_is_lost_and_shows_as_unfinished(bodies: Bodies) -> None:
    async with ClaimFleet(2, every(bodies, "10s", takes=5), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(11))
        (body,) = bodies.all
        fleet.member_of(body.ctx.instance).kill()
        await fleet.clock.advance_to(slot(29))

        assert bodies.slots() == [slot(10), slot(20)]
        first, second = await fleet.history("sync")
    assert (first.slot, first.state, first.ended) == (slot(10), RunState.RUNNING, None)
    assert second.state is RunState.SUCCESS


async def test_runs_of_one_job_overlap(bodies: Bodies) -> None:
    async with ClaimFleet(2, every(bodies, "10s", takes=25), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(65))

        assert bodies.most_at_once() == 3


async def test_a_handler_that_fails_is_recorded_with_its_error(bodies: Bodies) -> None:
    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.every("sync", "10s", bodies.taking(clock, 0, ValueError("no such file")))

    async with ClaimFleet(1, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(15))

        (attempt,) = await fleet.history("sync")
    assert attempt.state is RunState.FAILED
    assert "no such file" in (attempt.detail or "")


async def test_a_store_that_cannot_keep_the_end_costs_no_slot(bodies: Bodies) -> None:
    declare = every(bodies, "10m", takes=1)
    async with ClaimFleet(1, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(600.8))
        fleet[0].faults.away = True
        await fleet.clock.advance_to(slot(640))
        fleet[0].faults.away = False
        await fleet.clock.advance_to(slot(1210))

        assert bodies.slots() == [slot(600), slot(1200)]
        told = fleet.told(EventKind.ERROR)
    assert [e.detail for e in told] == ["its end was not recorded"]


async def test_a_stop_tells_a_handler_and_records_it_as_interrupted(bodies: Bodies) -> None:
    def declare(scheduler: Scheduler, clock: Clock) -> None:
        async def work(ctx: Any) -> None:
            await ctx.signal.wait()
            ctx.signal.raise_if_set()

        scheduler.every("sync", "10s", work)

    async with ClaimFleet(1, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(15))
        await fleet.stop(fleet[0])

        (attempt,) = await fleet.history("sync")
        told = fleet.told(EventKind.INTERRUPTED)
    assert attempt.state is RunState.INTERRUPTED
    assert [e.reason for e in told] == ["stop"]


async def test_whoever_stops_while_the_store_is_away_leaves_the_slot_to_others(
    bodies: Bodies,
) -> None:
    """It would win it within its grace, and begin no handler any more."""
    async with ClaimFleet(2, every(bodies, "10m"), clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(599))
        for member in fleet.members:
            member.faults.away = True
        await fleet.clock.advance_to(slot(605))
        stopping = asyncio.create_task(fleet[0].scheduler.stop())
        await fleet.clock.advance_to(slot(612))
        assert stopping.done(), "there is nothing to wait for"

        fleet[1].faults.away = False
        await fleet.clock.advance_to(slot(630))

        assert bodies.slots() == [slot(600)]
        assert fleet.told(EventKind.SKIP) == []


async def test_a_message_that_waits_to_be_sent_at_a_stop_is_sent(bodies: Bodies) -> None:
    broker, pool = Broker(bodies.clock), InLine()
    async with ClaimFleet(1, sending(broker, "10s"), clock=bodies.clock) as fleet:
        without_threads(fleet, pool)
        await fleet.clock.advance_to(slot(11))
        stopping = asyncio.create_task(fleet[0].scheduler.stop())
        await fleet.clock.advance(0.1)
        assert broker.sent == []
        assert pool.work_off() == 1
        await fleet.clock.advance_until(stopping.done)

        assert [ctx.slot for _, ctx in broker.sent] == [slot(10)]
        (attempt,) = await fleet.history("send")
    assert attempt.state is RunState.PUBLISHED


async def test_a_broker_that_is_down_is_asked_until_the_slot_is_late(bodies: Bodies) -> None:
    broker = Broker(bodies.clock, down=True)
    declare = sending(broker, "10m", max_late="2m")
    async with ClaimFleet(1, declare, clock=bodies.clock) as fleet:
        without_threads(fleet)
        await fleet.clock.advance_to(slot(700))
        broker.down = False
        await fleet.clock.advance_to(slot(710))

        assert [ctx.slot for _, ctx in broker.sent] == [slot(600)]


async def test_a_message_that_may_have_been_sent_is_not_told_as_not_begun(bodies: Bodies) -> None:
    broker = Broker(bodies.clock, unconfirmed=1)
    async with ClaimFleet(1, sending(broker, "10m"), clock=bodies.clock) as fleet:
        without_threads(fleet)
        await fleet.clock.advance_until(lambda: broker.tries == 1)
        broker.down = True
        stopping = asyncio.create_task(fleet[0].scheduler.stop(grace=1))
        await fleet.clock.advance_until(stopping.done)

        (attempt,) = await fleet.history("send")
    assert attempt.state is RunState.INTERRUPTED
    assert str(attempt.detail).startswith("perhaps not sent: ")


async def test_a_message_not_sent_in_time_has_failed(bodies: Bodies) -> None:
    broker = Broker(bodies.clock, down=True)
    declare = sending(broker, "10m", max_late="1m")
    async with ClaimFleet(1, declare, clock=bodies.clock) as fleet:
        without_threads(fleet)
        await fleet.clock.advance_to(slot(700))

        (attempt,) = await fleet.history("send")
    assert attempt.state is RunState.FAILED
    assert broker.sent == []


async def test_a_store_away_at_start_is_waited_for(bodies: Bodies) -> None:
    async with ClaimFleet(0, every(bodies, "10s"), clock=bodies.clock) as fleet:
        member = fleet._member(0, timedelta(0))
        fleet.members.append(member)
        member.faults.away = True
        starting = asyncio.create_task(member.scheduler.start())
        await fleet.clock.advance(15)
        assert starting.done()
        member.faults.away = False
        await fleet.clock.advance_to(slot(25))

        assert bodies.slots() == [slot(20)]


async def test_idle_it_asks_the_store_for_nothing(bodies: Bodies) -> None:
    async with ClaimFleet(1, every(bodies, "10h"), clock=bodies.clock) as fleet:
        await fleet.clock.advance(3600 * 9)

        # opened, asked the time, and what the one slot took
        assert fleet[0].faults.calls == {"open": 1, "claim": 2, "save": 1}
        assert bodies.slots() == [slot(4 * 3600)]


async def test_it_says_once_at_start_what_such_a_store_does_not_give(
    bodies: Bodies, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with ClaimFleet(1, every(bodies, "10s"), clock=bodies.clock) as fleet:
            await fleet.clock.advance(25)

    told = [r.getMessage() for r in caplog.records if "keeps no leases" in r.getMessage()]
    assert len(told) == 1
    for word in ("catch_up", "takeover", "overlap", "tracked"):
        assert word in told[0]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("overlap", "skip"),
        ("catch_up", "5m"),
        ("max_attempts", 2),
        ("lease", "15s"),
        ("heartbeat", "5s"),
        ("run_at_start", True),
        ("track", True),
    ],
)
def test_an_option_that_needs_a_lease_is_refused_where_it_was_written(
    option: str, value: object
) -> None:
    scheduler = Scheduler(MemoryClaimBackend(), clock=ManualClock())
    options: Any = {option: value}

    with pytest.raises(ConfigurationError, match=r"keeps leases.*leave it out.*redis://") as raised:
        scheduler.add("sync", Every("1h"), Broker(ManualClock()), **options)
    assert (raised.value.job, raised.value.option) == ("sync", option)
    with pytest.raises(ConfigurationError) as raised:
        Scheduler(MemoryClaimBackend(), **options)
    assert raised.value.option == option


def test_an_option_that_says_what_such_a_store_does_anyway_is_taken() -> None:
    scheduler = Scheduler(MemoryClaimBackend(), overlap="allow")

    job = scheduler.add(
        "sync", Every("1h"), lambda ctx: None, catch_up=0, max_attempts=1, max_late="2m"
    )

    assert job.overlap is Overlap.ALLOW
    assert job.max_late == timedelta(minutes=2)
    assert job.catch_up == timedelta(0)


class Always(Polled):
    def is_due(self, newest: datetime, now: datetime, /) -> tuple[bool, timedelta | None]:
        return True, None

    def canonical(self) -> str:
        return "always"


def test_a_schedule_whose_slots_follow_from_each_other_is_refused() -> None:
    scheduler = Scheduler(MemoryClaimBackend())

    with pytest.raises(ConfigurationError, match="keeps leases") as raised:
        scheduler.add("sync", Always(), lambda ctx: None)

    assert (raised.value.job, raised.value.option) == ("sync", "schedule")
