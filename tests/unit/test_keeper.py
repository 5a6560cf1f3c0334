"""The keeper renews in time, trusts no longer than it may, and gives up what is lost."""

import asyncio
from datetime import timedelta

import pytest

from anarchon.errors import OutcomeUnknown, StoreUnavailable
from anarchon.keeper import Held, margin
from tests.unit.kept import Kept


async def test_a_held_lease_is_renewed_every_heartbeat() -> None:
    async with Kept() as kept:
        kept.grant()

        await kept.clock.advance(20.5)

        assert [at for at, _ in kept.store.calls] == [5, 10, 15, 20]


async def test_many_leases_are_renewed_in_one_call_as_often_as_the_shortest_heartbeat() -> None:
    async with Kept() as kept:
        for number in range(400):
            kept.grant(f"long {number}")
        kept.grant("short", lease=6, heartbeat=2)

        await kept.clock.advance(6.5)

        assert [(at, len(tokens)) for at, tokens in kept.store.calls] == [
            (2, 401),
            (4, 401),
            (6, 401),
        ]


async def test_more_leases_than_a_call_bears_go_in_several() -> None:
    async with Kept() as kept:
        for number in range(4001):
            kept.grant(str(number))

        await kept.clock.advance(5)

        assert [len(tokens) for _, tokens in kept.store.calls] == [2000, 2000, 1]


async def test_a_keeper_that_holds_nothing_asks_nothing() -> None:
    async with Kept() as kept:
        held = kept.grant()
        await kept.clock.advance(6)
        kept.keeper.drop(held)
        kept.store.calls.clear()

        await kept.clock.advance(3600)

        assert kept.store.calls == []


async def test_a_token_is_renewed_from_before_its_claim_was_answered() -> None:
    async with Kept() as kept:
        kept.hold()

        await kept.clock.advance(5)

        assert kept.store.calls == [(5, ["t"])]


async def test_a_claim_won_on_a_blocked_loop_is_trusted_by_its_renewals() -> None:
    """The claim was sent two leases ago; the renewals since then count."""
    async with Kept() as kept:
        held = kept.hold()
        await kept.clock.advance(30)

        kept.keeper.grant(held, held.lease, asked_at=0)

        assert held.is_trusted_at(30)


async def test_trust_counts_from_before_the_request_less_the_margin() -> None:
    async with Kept() as kept:
        held = kept.grant(lease=15)

        assert held.is_trusted_at(13.49)
        assert not held.is_trusted_at(13.5)


async def test_a_slow_renewal_is_trusted_from_when_it_was_sent() -> None:
    async with Kept() as kept:
        held = kept.grant(lease=15)
        kept.store.gate = asyncio.Event()
        await kept.clock.advance(9)

        kept.store.gate.set()
        await kept.clock.settle()

        assert held.trusted_until == pytest.approx(5 + 13.5)


@pytest.mark.parametrize(
    ("lease", "expected"), [(1, 0.25), (2, 0.25), (2.5, 0.25), (15, 1.5), (60, 6)]
)
def test_the_margin_is_a_tenth_of_the_lease_and_at_least_a_quarter_second(
    lease: float, expected: float
) -> None:
    assert margin(timedelta(seconds=lease)).total_seconds() == expected


@pytest.mark.parametrize(
    "error", [StoreUnavailable("s", "away"), OutcomeUnknown("s", "?"), RuntimeError("a bug")]
)
async def test_an_attempt_ends_when_trust_does_though_the_store_only_fails(
    error: Exception,
) -> None:
    async with Kept() as kept:
        held = kept.grant()
        kept.store.error = error
        await kept.clock.advance(13.4)
        assert not held.signal.is_set()

        await kept.clock.advance(0.11)

        assert held.signal.reason == "lease_lost"


async def test_a_renewal_that_hangs_does_not_delay_the_end_of_trust() -> None:
    async with Kept() as kept:
        held = kept.grant(lease=15, heartbeat=5)
        await kept.clock.advance(6)
        kept.store.gate = asyncio.Event()  # the renewal of 10 s hangs until its deadline, 15 s
        other = kept.grant("other", lease=3, heartbeat=1.4)
        kept.keeper.drop(held)

        await kept.clock.advance(2.8)

        assert other.signal.reason == "lease_lost"


async def test_a_renewal_is_given_up_after_one_heartbeat_and_tried_again_sooner() -> None:
    async with Kept() as kept:
        held = kept.grant(lease=15, heartbeat=3)
        kept.store.gate = asyncio.Event()
        await kept.clock.advance(6.5)  # sent at 3, given up at 6

        kept.store.gate = None
        await kept.clock.advance(0.6)

        assert [at for at, _ in kept.store.calls] == pytest.approx([3, 7])
        assert held.trusted_until == pytest.approx(7 + 13.5)


async def test_a_refused_renewal_ends_a_granted_attempt() -> None:
    async with Kept() as kept:
        held = kept.grant()
        kept.store.unknown = {"t"}

        await kept.clock.advance(5)

        assert held.signal.reason == "lease_lost"


async def test_a_refusal_before_the_claim_was_answered_means_nothing() -> None:
    async with Kept() as kept:
        held = kept.hold()
        kept.store.unknown = {"t"}

        await kept.clock.advance(11)

        assert not held.signal.is_set()


async def test_a_refusal_that_overtook_the_claim_does_not_end_what_the_claim_won() -> None:
    """A renewal of other leases reaches the store before this claim does, its reply comes after."""
    async with Kept() as kept:
        kept.grant("another")
        await kept.clock.advance(4.9)
        held = kept.hold()
        kept.store.unknown = {"t"}
        kept.store.gate = asyncio.Event()
        await kept.clock.advance(0.1)
        assert kept.store.calls == [(5, ["another", "t"])]

        kept.keeper.grant(held, held.lease, asked_at=5)
        kept.store.gate.set()
        await kept.clock.settle()

        assert not held.signal.is_set()


async def test_a_refusal_after_the_handler_has_ended_means_nothing() -> None:
    async with Kept() as kept:
        held = kept.grant()
        held.over = True
        kept.store.unknown = {"t"}

        await kept.clock.advance(20)

        assert not held.signal.is_set()


async def test_waiting_for_an_end_to_be_stored_keeps_no_loop_busy() -> None:
    """The handler has ended and trust is over, while the store is away."""
    async with Kept() as kept:
        held = kept.grant()
        held.over = True
        kept.store.error = StoreUnavailable("s", "away")
        await kept.clock.advance(13)

        turns = 0
        step = kept.keeper._end_distrusted

        def counted(now: float) -> None:
            nonlocal turns
            turns += 1
            if turns > 1000:
                kept.keeper.drop(held)
            step(now)

        kept.keeper._end_distrusted = counted  # type: ignore[method-assign]
        await kept.clock.advance(30)

        assert turns < 50


async def test_an_attempt_beyond_its_timeout_is_renewed_no_longer() -> None:
    async with Kept() as kept:
        held = kept.grant()
        held.renew_until = 12

        await kept.clock.advance(60)

        assert [at for at, _ in kept.store.calls] == [5, 10]
        assert held.signal.reason == "lease_lost"


async def test_a_run_of_a_shorter_lease_is_renewed_in_time_for_it() -> None:
    """It was claimed first by an edition with another lease; the store keeps that one."""
    async with Kept() as kept:
        held = kept.hold(lease=60, heartbeat=20)
        kept.keeper.grant(held, timedelta(seconds=3), asked_at=0)

        await kept.clock.advance(2.5)

        assert [at for at, _ in kept.store.calls] == [1, 2]
        assert held.trusted_until == pytest.approx(2 + 2.7)


async def test_renewals_before_the_answer_give_no_more_trust_than_the_run_s_own_lease() -> None:
    async with Kept() as kept:
        held = kept.hold(lease=60, heartbeat=20)
        await kept.clock.advance(21)

        kept.keeper.grant(held, timedelta(seconds=3), asked_at=19)

        assert held.trusted_until == pytest.approx(20 + 2.7)


async def test_a_token_told_while_the_keeper_goes_to_sleep_is_renewed_all_the_same() -> None:
    """Two threads: the keeper has looked at what it holds, and not yet said when it will wake."""
    async with Kept() as kept:
        first = kept.grant("first")
        await kept.clock.advance(1)
        kept.keeper.drop(first)
        look = kept.keeper._next_wake
        told: list[Held] = []

        def interrupted(renewing: bool) -> float:
            wakes_at = look(renewing)
            if not told:
                told.append(kept.hold("second"))
            return wakes_at

        kept.keeper._next_wake = interrupted  # type: ignore[method-assign]
        await kept.clock.advance(4)
        assert told

        await kept.clock.advance(6)

        assert kept.store.calls[-1][1] == ["second"]


async def test_a_renewal_the_store_refuses_to_look_at_costs_the_others_nothing() -> None:
    """G10."""
    async with Kept() as kept:
        leases = [kept.grant(str(number)) for number in range(8)]
        kept.store.poisoned = {"3"}

        await kept.clock.advance(20)

        lost = [held.token for held in leases if held.signal.is_set()]
        assert lost == ["3"]


async def test_a_lease_that_the_store_does_not_answer_for_costs_the_others_nothing() -> None:
    """G10: it is on a node of a cluster that is down."""
    async with Kept() as kept:
        leases = [kept.grant(str(number)) for number in range(8)]
        kept.store.silent = {"3"}

        await kept.clock.advance(20)

        lost = [held.token for held in leases if held.signal.is_set()]
        assert lost == ["3"]


async def test_a_keeper_that_stops_closes_its_connection() -> None:
    async with Kept() as kept:
        kept.grant()
        await kept.clock.advance(6)

    assert (kept.store.opened, kept.store.closed) == (1, 1)


async def test_held_shows_only_what_was_granted() -> None:
    async with Kept() as kept:
        kept.hold("asked for")
        granted = kept.grant("granted")

        assert kept.keeper.held() == (granted,)
        assert repr(kept.keeper) == "<Keeper: 2 leases>"


async def test_a_lease_dropped_while_others_are_renewed_is_not_in_the_next_call() -> None:
    """A heartbeat may take several calls, and each of them its time."""
    async with Kept() as kept:
        leases = [kept.grant(str(number)) for number in range(4)]
        kept.store.poisoned = {"0"}  # so that it is halved
        kept.store.gate = asyncio.Event()
        await kept.clock.advance(5)
        assert kept.store.calls == [(5, ["0", "1", "2", "3"])]

        kept.keeper.drop(leases[1])
        kept.keeper.drop(leases[2])
        kept.keeper.drop(leases[3])
        kept.store.gate.set()
        await kept.clock.settle()

        assert [tokens for _, tokens in kept.store.calls[1:]] == [["0"], ["0"]]


async def test_who_can_wait_is_renewed_right_after_a_deadline_too_short_for_another() -> None:
    """G10: one short lease on a slow store."""
    async with Kept() as kept:
        kept.grant("patient", lease=15, heartbeat=5)
        kept.grant("urgent", lease=1.5, heartbeat=0.5)
        kept.store.gate = asyncio.Event()

        await kept.clock.advance(1.1)

        assert kept.store.calls == [(0.5, ["patient", "urgent"]), (1.0, ["patient"])]
