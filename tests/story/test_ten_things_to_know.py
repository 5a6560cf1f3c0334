"""Ten things to know about anarchon, each shown by a small cluster.

A ``Fleet`` is several schedulers, as they would run on several machines, on one store. Its
clock stands still until a test advances it, so that a day takes no time, and a test may
freeze a member, kill it, or cut it off from the store. Nothing here knows a leader, for
there is none: each member finds the same slots by itself and asks the store for each of
them. What is promised is numbered (G1, G2 ...) in the page on guarantees.
"""

from datetime import UTC, datetime, timedelta

import pytest

from anarchon import RunContext, RunState, Scheduler
from anarchon.testing import Fleet, InstanceClock, ManualClock

MIDNIGHT = datetime(2026, 1, 1, tzinfo=UTC)  # when the clock of a fleet starts
MINUTE = timedelta(minutes=1)


class Diary:
    """A job that writes down each of its runs, and takes as long as it is told to."""

    def __init__(self, takes: float = 0) -> None:
        self.takes = takes
        self.begun: list[RunContext] = []

    def every_minute(self, scheduler: Scheduler, clock: InstanceClock) -> None:
        async def work(ctx: RunContext) -> str:
            self.begun.append(ctx)
            await clock.sleep(self.takes)
            return "done"

        scheduler.every("sync", "1m", work)

    def slots(self) -> list[str]:
        """Return the slots of all runs, as times of day."""
        return [f"{ctx.slot:%H:%M}" for ctx in self.begun]

    def attempts(self) -> list[int]:
        return [ctx.attempt for ctx in self.begun]


async def test_1_each_slot_runs_once_however_many_instances_there_are() -> None:
    """G1, G2: the store lets exactly one of them win a slot."""
    diary = Diary()

    async with Fleet(3, diary.every_minute) as fleet:
        await fleet.clock.advance(5 * MINUTE + MINUTE / 2)

    assert diary.slots() == ["00:01", "00:02", "00:03", "00:04", "00:05"]


async def test_2_when_a_runner_dies_another_instance_takes_its_run_over() -> None:
    """G6: within its lease (15 s) and two heartbeats (5 s each)."""
    diary = Diary(takes=20)

    async with Fleet(2, diary.every_minute) as fleet:
        await fleet.clock.advance_to(MIDNIGHT + MINUTE + timedelta(seconds=3))
        fleet.member_of(diary.begun[0].instance).kill()
        await fleet.clock.advance(15 + 2 * 5)

    # the handler starts again from the beginning, and can tell: attempt 2 of the same slot
    assert diary.slots() == ["00:01", "00:01"]
    assert diary.attempts() == [1, 2]
    assert diary.begun[0].idempotency_key == diary.begun[1].idempotency_key


async def test_3_a_graceful_stop_hands_over_and_need_not_wait_for_the_lease() -> None:
    """G7: within two heartbeats. This is what a deploy does."""
    diary = Diary(takes=40)

    async with Fleet(2, diary.every_minute, grace=0) as fleet:
        await fleet.clock.advance_to(MIDNIGHT + MINUTE + timedelta(seconds=3))
        await fleet.stop(fleet.member_of(diary.begun[0].instance))
        await fleet.clock.advance(2 * 5)

    assert diary.attempts() == [1, 2]


async def test_4_a_job_longer_than_its_interval_skips_slots() -> None:
    """G3, G9: runs of a job do not overlap, and do not pile up. ``overlap="allow"`` lets them."""
    diary = Diary(takes=150)

    async with Fleet(2, diary.every_minute) as fleet:
        await fleet.clock.advance(9 * MINUTE)

    assert diary.slots() == ["00:01", "00:04", "00:07"]


async def test_5_after_a_time_without_anybody_the_newest_slot_is_caught_up() -> None:
    """G8: one run for all that was missed, if it is not older than ``catch_up`` (5 min)."""
    diary = Diary()

    async with Fleet(1, diary.every_minute) as fleet:
        await fleet.clock.advance(MINUTE * 1.5)
        await fleet.stop(fleet[0])
        await fleet.clock.advance_to(MIDNIGHT + timedelta(hours=1, seconds=30))
        await fleet.add()
        await fleet.clock.advance(1)

    assert diary.slots() == ["00:01", "01:00"]


async def test_6_who_was_frozen_loses_its_lease_and_its_result_is_refused() -> None:
    """G4: a process that was suspended cannot know that time went by without it."""
    diary = Diary(takes=20)

    async with Fleet(2, diary.every_minute) as fleet:
        await fleet.clock.advance_to(MIDNIGHT + MINUTE + timedelta(seconds=3))
        frozen = fleet.member_of(diary.begun[0].instance)
        frozen.freeze()
        await fleet.clock.advance(30)
        frozen.thaw()
        await fleet.clock.advance(20)
        first, second = await fleet.history("sync")

    # told by its signal; its resources can tell it by the fence, which only grows (G5)
    assert diary.begun[0].signal.reason == "lease_lost"
    assert diary.begun[0].fence < diary.begun[1].fence
    assert (first.state, second.state) == (RunState.LOST, RunState.SUCCESS)


async def test_7_a_store_that_is_away_is_waited_for() -> None:
    """Nobody can win a slot meanwhile; the newest one may still start when it is back."""
    diary = Diary()

    async with Fleet(3, diary.every_minute) as fleet:
        await fleet.clock.advance(MINUTE * 1.5)
        for member in fleet.members:
            member.faults.away = True
        await fleet.clock.advance(10 * MINUTE)
        assert diary.slots() == ["00:01"]
        for member in fleet.members:
            member.faults.away = False
        await fleet.clock.advance(2 * MINUTE)

    assert diary.slots() == ["00:01", "00:11", "00:12", "00:13"]


async def test_8_asking_again_is_harmless() -> None:
    """G1: an answer that got lost is asked for again under the same token, and is the same."""
    diary = Diary(takes=5)

    async with Fleet(2, diary.every_minute) as fleet:
        for member in fleet.members:
            member.faults.loses.update(claim=2, finish=2, renew=1)
        await fleet.clock.advance(MINUTE * 3.5)
        history = await fleet.history("sync")

    assert diary.slots() == ["00:01", "00:02", "00:03"]
    assert [(a.attempt, a.state) for a in history] == [(1, RunState.SUCCESS)] * 3


@pytest.mark.parametrize(
    ("day", "utc"),
    [
        ("2026-03-29", ["2026-03-28T01:30", "2026-03-29T01:00", "2026-03-30T00:30"]),
        ("2026-10-25", ["2026-10-24T00:30", "2026-10-25T00:30", "2026-10-26T01:30"]),
    ],
)
async def test_9_a_local_time_fires_once_a_day_also_when_the_clocks_change(
    day: str, utc: list[str]
) -> None:
    """G11: 02:30 is skipped in spring (it fires when the clocks jump), and repeated in autumn."""
    diary = Diary()

    def nightly(scheduler: Scheduler, clock: InstanceClock) -> None:
        async def work(ctx: RunContext) -> None:
            diary.begun.append(ctx)

        scheduler.cron("nightly", "30 2 * * *", work, timezone="Europe/Berlin")

    noon_before = datetime.fromisoformat(f"{day}T12:00+00:00") - timedelta(days=2)
    async with Fleet(2, nightly, clock=ManualClock(noon_before)) as fleet:
        await fleet.clock.advance(timedelta(days=3))

    assert [f"{ctx.slot:%Y-%m-%dT%H:%M}" for ctx in diary.begun] == utc


async def test_10_the_history_tells_it_all() -> None:
    """One record an attempt: who ran it, when, how it ended, and what came of it."""
    diary = Diary(takes=70)

    async with Fleet(2, diary.every_minute) as fleet:
        await fleet.clock.advance_to(MIDNIGHT + MINUTE + timedelta(seconds=3))
        fleet.member_of(diary.begun[0].instance).kill()
        await fleet.clock.advance_to(MIDNIGHT + 5 * MINUTE)
        survivor = next(m for m in fleet.members if not m.clock.is_frozen)
        survivor_name = survivor.scheduler.instance
        history = await survivor.scheduler.history("sync")

    told = [(f"{a.slot:%H:%M}", a.attempt, a.state, a.detail) for a in reversed(history)]
    assert told == [
        ("00:01", 1, RunState.LOST, None),
        ("00:01", 2, RunState.SUCCESS, '"done"'),
        ("00:02", 0, RunState.SKIPPED, None),
        ("00:03", 1, RunState.SUCCESS, '"done"'),
        ("00:04", 0, RunState.SKIPPED, None),
    ]
    assert history[-1].instance == diary.begun[0].instance
    assert history[-2].instance == survivor_name
