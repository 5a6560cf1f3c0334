"""Runs whose runner died, froze or left are taken over, and nothing else is."""

from anarchon.events import EventKind
from anarchon.run import RunState
from anarchon.testing import Fleet


def long_job(scheduler, clock):
    async def work(ctx):
        await clock.sleep(30)

    scheduler.every("sync", "1m", work, lease="15s", jitter=0)


async def test_a_run_whose_runner_was_killed_is_taken_over_within_its_lease_and_two_heartbeats():
    """G6."""
    async with Fleet(2, long_job) as fleet:
        await fleet.clock.advance(61)
        [start] = fleet.told(EventKind.START)
        killed = next(m for m in fleet.members if m.scheduler.instance == start.instance)
        killed.kill()

        at = fleet.clock.monotonic()
        await fleet.clock.advance_until(lambda: fleet.told(EventKind.TAKEOVER))
        assert fleet.clock.monotonic() - at <= 15 + 2 * 5 + 0.1
        await fleet.clock.advance(31)
        assert [(a.attempt, a.state) for a in await fleet.history("sync")] == [
            (1, RunState.LOST),
            (2, RunState.SUCCESS),
        ]
