"""Many jobs at once cost the store little, and are shared by what the instances can bear."""

import threading
from collections import Counter

from anarchon.clock import Clock
from anarchon.events import EventKind
from anarchon.run import RunContext, RunState
from anarchon.scheduler import Scheduler
from anarchon.schedules import Every
from anarchon.testing import Fleet, Member
from tests.engine.bodies import Bodies, others, runner, slot, threads_reach
from tests.engine.brokers import Broker, without_threads


def trips(member: Member) -> int:
    return sum(member.faults.calls[verb] for verb in ("claim", "finish", "release"))


async def settle_calls(fleet: Fleet) -> None:
    for member in fleet.members:
        member.faults.calls.clear()


async def test_a_thousand_jobs_at_one_instant_each_run_once_in_few_calls(bodies: Bodies) -> None:
    """At most one call per hundred due slots an instance: claims, finishes and looks together."""

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        for number in range(1000):
            scheduler.every(f"job {number}", "1h", bodies.taking(clock), jitter=0)

    async with Fleet(3, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(3599))
        await settle_calls(fleet)
        await fleet.clock.advance_to(slot(3700))

        calls = [trips(member) for member in fleet.members]
    assert len(bodies.all) == 1000
    assert len({body.ctx.job for body in bodies.all}) == 1000
    assert max(calls) <= 10


async def test_a_burst_with_default_jitter_asks_at_most_once_of_a_kind_each_20_ms(
    bodies: Bodies,
) -> None:
    broker = Broker(bodies.clock)

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        for number in range(2500):
            scheduler.add(f"job {number}", Every("1h"), broker, overlap="allow")

    async with Fleet(2, declare, clock=bodies.clock) as fleet:
        without_threads(fleet)
        await fleet.clock.advance_to(slot(3599))
        await settle_calls(fleet)
        await fleet.clock.advance_to(slot(3620))

        calls = [trips(member) for member in fleet.members]
    assert len({ctx.job for _, ctx in broker.sent}) == len(broker.sent) == 2500
    # half a second is 25 times 20 ms, for claims and for finishes
    assert max(calls) <= 2 * 27


async def test_one_renewal_a_heartbeat_however_many_runs_are_under_way(bodies: Bodies) -> None:
    def declare(scheduler: Scheduler, clock: Clock) -> None:
        for number in range(300):
            scheduler.every(f"job {number}", "1h", bodies.taking(clock, 60), lease="15s")

    async with Fleet(1, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(3601))
        await settle_calls(fleet)
        await fleet.clock.advance(50)

        calls = Counter(fleet[0].faults.calls)
    assert calls["renew"] == 10
    # the connection for them, and perhaps the hourly upkeep
    assert set(calls) <= {"open", "renew", "active", "prune"}


async def test_an_idle_instance_with_ten_thousand_jobs_hardly_asks(bodies: Bodies) -> None:
    """At most one call per 10 s."""

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        work = bodies.taking(clock)
        for number in range(10_000):
            scheduler.every(f"job {number}", "365d", work)

    async with Fleet(1, declare, clock=bodies.clock) as fleet:
        await settle_calls(fleet)
        await fleet.clock.advance(2 * 3600)

        calls = sum(fleet[0].faults.calls.values())
    assert calls <= 2 * 3600 / 10
    assert bodies.all == []


async def test_more_threads_than_places_wait_and_other_instances_take_them() -> None:
    """An instance claims only what it can start at once."""
    may_end = threading.Event()
    instances: list[str] = []

    def work(ctx: RunContext) -> None:
        instances.append(ctx.instance)
        may_end.wait(20)

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        for number in range(6):
            scheduler.at(f"job {number}", slot(60), work, jitter=0)

    async with Fleet(2, declare, max_threads=2) as fleet:
        await fleet.clock.advance_to(slot(70))
        await threads_reach(fleet, lambda: len(instances) == 4)
        counts = Counter(instances)

        may_end.set()
        await threads_reach(fleet, lambda: len(fleet.told(EventKind.SUCCESS)) == 6)
    assert sorted(counts.values()) == [2, 2]
    assert len(instances) == 6


async def test_a_slot_that_found_no_place_in_time_is_late() -> None:
    may_end = threading.Event()

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        for number in range(2):
            scheduler.at(
                f"job {number}", slot(60), lambda ctx: may_end.wait(20), jitter=0, max_late="30s"
            )

    async with Fleet(1, declare, max_threads=1) as fleet:
        await fleet.clock.advance_to(slot(95))

        assert len(fleet.told(EventKind.START)) == 1
        [skip] = fleet.told(EventKind.SKIP)
        assert skip.reason == "late"
        may_end.set()
        await threads_reach(fleet, lambda: fleet.told(EventKind.SUCCESS))


async def test_a_thread_beyond_its_timeout_keeps_its_place_until_it_ends() -> None:
    may_end = threading.Event()
    reasons: list[str | None] = []

    def deaf(ctx: RunContext) -> None:
        if ctx.job == "first":
            may_end.wait(20)
        reasons.append(ctx.signal.reason)

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.at("first", slot(60), deaf, jitter=0, timeout="5s")
        scheduler.at("second", slot(80), deaf, jitter=0)

    async with Fleet(1, declare, max_threads=1) as fleet:
        await fleet.clock.advance_to(slot(90))
        [failed] = await fleet.history("first")
        assert (failed.state, failed.detail) == (RunState.FAILED, "timeout: took longer than 5s")
        assert len(fleet.told(EventKind.START)) == 1

        may_end.set()
        await threads_reach(fleet, lambda: fleet.told(EventKind.SUCCESS))
    assert reasons == ["timeout", None]


async def test_what_a_thread_returns_and_raises_is_in_the_history() -> None:
    def returns(ctx: RunContext) -> object:
        return {"rows": 3}

    def raises(ctx: RunContext) -> None:
        raise SystemExit("no")

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.at("returns", slot(60), returns, jitter=0)
        scheduler.at("raises", slot(60), raises, jitter=0)

    async with Fleet(1, declare) as fleet:
        await fleet.clock.advance_to(slot(60.5))
        await threads_reach(
            fleet, lambda: len(fleet.told(EventKind.SUCCESS) + fleet.told(EventKind.FAILURE)) == 2
        )
        [returned], [raised] = await fleet.history("returns"), await fleet.history("raises")

    assert (returned.state, returned.detail) == (RunState.SUCCESS, '{"rows": 3}')
    assert (raised.state, raised.detail) == (RunState.FAILED, "SystemExit('no')")


async def test_who_lost_a_claim_renews_nothing(bodies: Bodies) -> None:
    """Its keeper was told of the token before the claim, and must forget it."""

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.at("sync", slot(60), bodies.taking(clock, 3600))

    async with Fleet(3, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance_to(slot(600))

        [body] = bodies.all
        for member in others(fleet, runner(fleet, body)):
            assert member.faults.calls["claim"] > 10
            assert member.faults.calls["renew"] == 0


async def test_a_function_whose_thread_comes_free_when_its_trust_is_over_is_not_called() -> None:
    may_go = threading.Event()
    called: list[int] = []

    def declare(scheduler: Scheduler, clock: Clock) -> None:
        scheduler.at("sync", slot(60), lambda ctx: called.append(ctx.attempt), jitter=0)

    async with Fleet(1, declare, max_threads=1) as fleet:
        assert fleet[0].scheduler._life is not None
        fleet[0].scheduler._life.executor._threads.submit(may_go.wait, 20)
        await fleet.clock.advance_to(slot(61))
        assert fleet.told(EventKind.START)
        fleet[0].faults.away = True
        await fleet.clock.advance(15)

        may_go.set()
        await threads_reach(fleet, lambda: fleet.told(EventKind.INTERRUPTED))
        assert called == []
