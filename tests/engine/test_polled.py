"""Jobs whose schedule only says whether it is due, given the newest slot."""

import asyncio
import itertools
import random
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from anarchon.backends.memory import MemoryBackend
from anarchon.clock import Clock
from anarchon.events import EventKind
from anarchon.run import RunState
from anarchon.scheduler import Scheduler
from anarchon.schedules import Polled
from anarchon.testing import Fleet
from tests.engine.bodies import Bodies, others, runner, slot

Answer = tuple[bool, timedelta | None]


class Ask(Polled):
    """A rule that answers what a function does, told the newest slot and the time."""

    def __init__(self, answer: Callable[[datetime, datetime], Any], text: str = "ask") -> None:
        self._answer = answer
        self._text = text
        self.asked: list[tuple[datetime, datetime]] = []

    def is_due(self, newest: datetime, now: datetime, /) -> Answer:
        self.asked.append((newest, now))
        return self._answer(newest, now)  # type: ignore[no-any-return]  # or nonsense

    def canonical(self) -> str:
        return self._text


def each(seconds: float) -> Ask:
    """A rule that is due so long after the newest slot, and knows it."""
    step = timedelta(seconds=seconds)

    def answer(newest: datetime, now: datetime) -> Answer:
        left = newest + step - now
        return (True, step) if left <= timedelta(0) else (False, left)

    return Ask(answer)


def job(
    bodies: Bodies, rule: Polled, takes: float = 0, **options: Any
) -> Callable[[Scheduler, Clock], object]:
    def declare(scheduler: Scheduler, clock: Clock) -> object:
        return scheduler.add("sync", rule, bodies.taking(clock, takes), **{"jitter": 0, **options})

    return declare


def steps(bodies: Bodies) -> list[float]:
    """Return the seconds from each slot to the next, the first counted from the start."""
    found = [slot(0), *bodies.slots()]
    return [(b - a).total_seconds() for a, b in itertools.pairwise(found)]


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("jitter", [0, 0.5])
async def test_every_due_moment_runs_once(bodies: Bodies, size: int, jitter: float) -> None:
    async with Fleet(size, job(bodies, each(10), jitter=jitter), clock=bodies.clock) as fleet:
        await fleet.clock.advance(205)

    assert len(bodies.all) == 20
    assert all(10 <= step < 10.2 for step in steps(bodies))


async def test_a_rule_is_told_when_the_store_first_saw_the_job_until_there_is_a_slot(
    bodies: Bodies,
) -> None:
    rule = each(10)
    async with Fleet(1, job(bodies, rule), clock=bodies.clock) as fleet:
        await fleet.clock.advance(11)

    assert {newest for newest, _ in rule.asked[:2]} == {slot(0)}
    assert bodies.slots() == [slot(10)]


async def test_an_edited_rule_is_not_due_for_the_time_before_the_edit(bodies: Bodies) -> None:
    async with Fleet(1, job(bodies, each(60)), clock=bodies.clock) as fleet:
        await fleet.clock.advance(50)
        await fleet.stop(fleet.members[0])
        fleet._declare = job(bodies, Ask(each(30)._answer, "edited"))
        await fleet.add()
        await fleet.clock.advance(29)
        assert bodies.all == []
        await fleet.clock.advance(2)

    assert len(bodies.all) == 1


async def test_what_came_due_in_a_downtime_runs_once_at_the_start(bodies: Bodies) -> None:
    async with Fleet(3, job(bodies, each(10)), clock=bodies.clock) as fleet:
        await fleet.clock.advance(25)
        for member in fleet.members:
            await fleet.stop(member)
        await fleet.clock.advance(3600)
        for _ in range(3):
            await fleet.add()
        await fleet.clock.advance(5)

    assert len(bodies.all) == 3


@pytest.mark.parametrize("jitter", [0, 1])
async def test_the_others_go_on_when_the_one_that_wins_is_killed(
    bodies: Bodies, jitter: float
) -> None:
    declare = job(bodies, each(10), jitter=jitter)
    async with Fleet(3, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance(32)
        runner(fleet, bodies.all[-1]).kill()
        await fleet.clock.advance(60)

    assert all(10 <= step < 11 for step in steps(bodies))
    assert len(bodies.all) == 9


async def test_a_run_is_taken_over_when_its_runner_dies(bodies: Bodies) -> None:
    """G6."""
    async with Fleet(2, job(bodies, each(600), takes=30), clock=bodies.clock) as fleet:
        await fleet.clock.advance(605)
        dead = runner(fleet, bodies.all[0])
        dead.kill()
        await fleet.clock.advance(30)

        assert bodies.slots() == [slot(600), slot(600)]
        assert bodies.attempts() == [1, 2]
        assert runner(fleet, bodies.all[1]) is others(fleet, dead)[0]
        await fleet.clock.advance(30)


async def test_a_job_longer_than_its_rule_skips_and_does_not_pile_up(bodies: Bodies) -> None:
    """G9."""
    async with Fleet(3, job(bodies, each(10), takes=35), clock=bodies.clock) as fleet:
        await fleet.clock.advance(95)
        history = await fleet.history("sync")

    assert bodies.most_at_once() == 1
    skipped = [a.slot for a in history if a.state is RunState.SKIPPED]
    assert len(bodies.all) == 3
    assert len(skipped) == 6


async def test_runs_may_overlap_if_the_job_says_so(bodies: Bodies) -> None:
    declare = job(bodies, each(10), takes=35, overlap="allow")
    async with Fleet(2, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance(61)
        assert len(bodies.all) == 6
        await fleet.clock.advance(40)


@pytest.mark.parametrize(
    "wrong",
    [
        RuntimeError("no"),
        SystemExit(1),
        None,
        True,
        (True,),
        (1, timedelta(seconds=1)),
        (True, 5),
        (True, timedelta(seconds=5), 1),
    ],
    ids=repr,
)
async def test_a_rule_that_fails_is_told_of_once_and_asked_again(
    bodies: Bodies, wrong: object
) -> None:
    def answer(newest: datetime, now: datetime) -> Any:
        if now >= slot(300):
            return each(10)._answer(newest, now)
        if isinstance(wrong, BaseException):
            raise wrong
        return wrong

    rule = Ask(answer)
    async with Fleet(1, job(bodies, rule), clock=bodies.clock) as fleet:
        await fleet.clock.advance(299)
        (event,) = fleet.told(EventKind.ERROR)
        assert "asked again" in (event.detail or "")
        assert 5 <= len(rule.asked) <= 20
        await fleet.clock.advance(120)
        assert len(bodies.all) >= 5
        assert len(fleet.told(EventKind.ERROR)) == 1


async def test_a_rule_that_fails_anew_is_told_of_anew(bodies: Bodies) -> None:
    def answer(newest: datetime, now: datetime) -> Any:
        if now.minute % 2 == 0:
            raise RuntimeError("no")
        return False, timedelta(seconds=5)

    async with Fleet(1, job(bodies, Ask(answer)), clock=bodies.clock) as fleet:
        await fleet.clock.advance(359)
        assert len(fleet.told(EventKind.ERROR)) == 3


async def test_a_rule_that_fails_holds_up_no_other(bodies: Bodies) -> None:
    """G10."""

    def broken(newest: datetime, now: datetime) -> Any:
        raise RuntimeError("no")

    def declare(scheduler: Scheduler, clock: Clock) -> object:
        scheduler.add("broken", Ask(broken), bodies.taking(clock))
        return job(bodies, each(10))(scheduler, clock)

    async with Fleet(2, declare, clock=bodies.clock) as fleet:
        await fleet.clock.advance(61)

    assert len(bodies.slots("sync")) == 6


@pytest.mark.parametrize("wait", [timedelta(0), timedelta(seconds=-5), timedelta(microseconds=1)])
async def test_a_rule_that_is_always_due_runs_ten_times_a_second_at_the_most(
    bodies: Bodies, wait: timedelta
) -> None:
    rule = Ask(lambda newest, now: (True, wait))
    async with Fleet(2, job(bodies, rule), clock=bodies.clock) as fleet:
        await fleet.clock.advance(2)
        ran = len(bodies.all)
        calls = sum(member.faults.calls["claim"] for member in fleet.members)

    assert 10 <= ran <= 20
    assert calls <= 60


async def test_a_rule_that_cannot_tell_when_is_asked_once_a_minute(bodies: Bodies) -> None:
    rule = Ask(lambda newest, now: (False, None))
    async with Fleet(1, job(bodies, rule), clock=bodies.clock) as fleet:
        await fleet.clock.advance(605)

    assert 10 <= len(rule.asked) <= 12


async def test_rules_that_are_not_due_ask_nothing_of_the_store(bodies: Bodies) -> None:
    def declare(scheduler: Scheduler, clock: Clock) -> None:
        for number in range(100):
            rule = Ask(lambda newest, now: (False, timedelta(seconds=1)))
            scheduler.add(f"job{number}", rule, bodies.taking(clock))

    async with Fleet(1, declare, clock=bodies.clock) as fleet:
        before = fleet[0].faults.calls.total()
        await fleet.clock.advance(120)
        assert fleet[0].faults.calls.total() == before


async def test_what_is_due_in_one_moment_travels_in_one_call(bodies: Bodies) -> None:
    def declare(scheduler: Scheduler, clock: Clock) -> None:
        for number in range(100):
            scheduler.add(f"job{number}", each(10), bodies.taking(clock), jitter=0)

    async with Fleet(2, declare, clock=bodies.clock) as fleet:
        before = [dict(member.faults.calls) for member in fleet.members]
        await fleet.clock.advance(15)
        after = [dict(member.faults.calls) for member in fleet.members]

    assert len(bodies.all) == 100
    for was, has in zip(before, after, strict=True):
        assert has["claim"] - was.get("claim", 0) <= 2
        assert has["active"] - was["active"] <= 2


async def test_a_claim_whose_answer_is_lost_runs_once(bodies: Bodies) -> None:
    async with Fleet(2, job(bodies, each(10)), clock=bodies.clock) as fleet:
        for member in fleet.members:
            member.faults.loses["claim"] = 5
        await fleet.clock.advance(61)

    assert all(10 <= step < 13 for step in steps(bodies))


async def test_after_an_outage_it_goes_on_with_one_run(bodies: Bodies) -> None:
    async with Fleet(3, job(bodies, each(10)), clock=bodies.clock) as fleet:
        await fleet.clock.advance(15)
        for member in fleet.members:
            member.faults.away = True
        await fleet.clock.advance(300)
        for member in fleet.members:
            member.faults.away = False
        await fleet.clock.advance(30)

    assert steps(bodies)[0] == 10
    assert steps(bodies)[1] > 290
    assert len(steps(bodies)) >= 3
    assert all(step >= 10 for step in steps(bodies)[2:])


async def test_a_store_clock_that_was_set_back_makes_no_double(bodies: Bodies) -> None:
    async with Fleet(2, job(bodies, each(10)), clock=bodies.clock) as fleet:
        await fleet.clock.advance(35)
        ran = len(bodies.all)
        fleet.store_is_off_by = timedelta(seconds=-120)
        await fleet.clock.advance(115)
        assert len(bodies.all) == ran
        await fleet.clock.advance(30)
        assert len(bodies.all) > ran


@pytest.mark.parametrize("seed", range(8))
async def test_whatever_goes_wrong_no_due_moment_runs_twice(bodies: Bodies, seed: int) -> None:
    """Killed, frozen, cut off, and with answers that get lost."""
    dice = random.Random(seed)
    declare = job(bodies, each(5), takes=1, jitter=dice.choice([0, 0.5]), lease=3, overlap="allow")
    async with Fleet(4, declare, clock=bodies.clock) as fleet:
        for _ in range(60):
            member = dice.choice(fleet.members)
            harm = dice.choice(["freeze", "thaw", "away", "back", "lose", "kill", "wait", "wait"])
            if harm == "freeze" and not member.clock.is_frozen:
                member.freeze()
            elif harm == "thaw" and member.clock.is_frozen:
                member.thaw()
            elif harm in ("away", "back"):
                member.faults.away = harm == "away"
            elif harm == "lose":
                member.faults.loses[dice.choice(["claim", "active", "finish"])] += 2
            elif harm == "kill" and len(fleet.members) < 7:
                member.kill()
                await fleet.add()
            await fleet.clock.advance(dice.uniform(0.1, 12))
        for member in fleet.members:
            member.faults.away = False
        await fleet.clock.advance(60)
        history = await fleet.history("sync", limit=1000)

    due = sorted({attempt.slot for attempt in history})
    assert all(b - a >= timedelta(seconds=5) for a, b in itertools.pairwise(due))
    assert len(due) > 20


async def test_a_job_may_be_declared_while_running(bodies: Bodies) -> None:
    async with Fleet(1, lambda scheduler, clock: None, clock=bodies.clock) as fleet:
        await fleet.clock.advance(5)
        job(bodies, each(10))(fleet[0].scheduler, fleet[0].clock)
        await fleet.clock.advance(26)

    assert len(bodies.all) == 2


async def test_no_next_slot_can_be_told(bodies: Bodies) -> None:
    async with Fleet(1, job(bodies, each(10)), clock=bodies.clock) as fleet:
        assert fleet[0].scheduler.next_slots("sync") == []


async def test_a_rule_that_hangs_holds_up_no_other_job_and_no_stop(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """G10."""
    monkeypatch.setattr("anarchon.scheduler.polling._SLOW", 0.05)
    hangs, ends, ran = threading.Event(), threading.Event(), asyncio.Event()

    def hang(newest: datetime, now: datetime) -> Answer:
        hangs.set()
        ends.wait(30)
        return False, None

    scheduler = Scheduler(MemoryBackend())

    async def work(ctx: object) -> None:
        if hangs.is_set():
            ran.set()

    scheduler.add("hangs", Ask(hang), work)
    scheduler.add("polled", each(0.1), work, jitter=0)
    await scheduler.start()
    try:
        await ran.wait()
    finally:
        await scheduler.stop()
        ends.set()

    assert [r.args for r in caplog.records if "schedule slow" in r.message] == [("hangs", 0.05)]
