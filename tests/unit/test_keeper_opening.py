"""How the keeper gets its own connection, of which every lease here depends."""

from tests.unit.kept import Kept


async def test_a_connection_that_hangs_costs_no_lease_that_is_longer_than_two_heartbeats() -> None:
    """G6: 10 s for the try and 5 s until it would have cost every lease of the default length."""
    async with Kept() as kept:
        held = kept.grant()
        kept.store.opening = 1000
        await kept.clock.advance(6)
        kept.store.opening = 0

        await kept.clock.advance(6)

        assert kept.store.calls
        assert not held.signal.is_set()


async def test_a_connection_that_hangs_costs_a_short_lease_nothing_beside_a_long_one() -> None:
    """G10: the shortest heartbeat says how long a try may take."""
    async with Kept() as kept:
        short = kept.grant("short", lease=6, heartbeat=1)
        kept.grant("long", lease=300, heartbeat=100)
        kept.store.opening = 1000
        await kept.clock.advance(1.5)
        kept.store.opening = 0

        await kept.clock.advance(10)

        assert kept.store.calls
        assert not short.signal.is_set()


async def test_a_store_that_is_slow_to_connect_to_is_given_more_time_at_each_try() -> None:
    async with Kept() as kept:
        kept.store.opening = 1.5
        kept.grant(lease=1, heartbeat=0.3)

        await kept.clock.advance(6)

        assert kept.store.opened == 4
        assert kept.store.calls


async def test_a_try_that_hangs_since_before_an_outage_ended_costs_no_lease_claimed_after_it() -> (
    None
):
    """G6: the store answers a claim, so it can be reached; the try may go on for 10 s more."""
    async with Kept() as kept:
        kept.store.opening = 1000
        kept.hold("unanswered", lease=6, heartbeat=2)
        await kept.clock.advance_until(lambda: kept.store.opened == 4)
        kept.store.opening = 0

        held = kept.grant("answered", lease=6, heartbeat=2)
        await kept.clock.advance(6)

        assert kept.store.opened == 5
        assert not held.signal.is_set()
