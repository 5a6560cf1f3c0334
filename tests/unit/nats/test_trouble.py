"""Servers that die, freeze or are cut off in the middle of a call, and what is left of it."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from anarchon.clock import SystemClock
from anarchon.errors import OutcomeUnknown, StoreError, StoreUnavailable
from anarchon.run import RunState
from anarchon.store import Outcome
from anarchon_contract.claims.questions import SECOND, ended
from tests.cluster.network import Proxy
from tests.unit.nats.admin import NAMES, Admin

CLOCK = SystemClock()


async def test_a_claim_whose_answer_is_lost_is_won_when_it_is_asked_again(
    admin, ask, cut_off, way, due
):
    """G1"""
    way.slow(0.3)
    call = asyncio.ensure_future(cut_off.claim(due, "a"))
    await admin.wait_for_claim_of(due)
    way.reset()
    with pytest.raises(OutcomeUnknown):
        await call
    way.heal()

    other = await ask.claim(due, "b")
    again = await cut_off.claim(due, "a")

    assert (other.outcome, again.outcome) == (Outcome.DONE, Outcome.WON)
    assert [one.slot for one in await ask.history()] == [due]


async def test_a_look_whose_answer_is_lost_is_made_once_more(cut_off, way, due, ask):
    way.slow(0.3)
    call = asyncio.ensure_future(cut_off.claim(due, "a"))
    await CLOCK.sleep(0.1)
    way.reset()
    way.heal()

    assert (await call).outcome is Outcome.WON
    assert (await ask.claim(due, "b")).outcome is Outcome.DONE


async def test_a_server_that_is_gone_is_not_asked_for_ever(cut_off, way, due):
    way.cut()

    with pytest.raises(StoreUnavailable):
        await cut_off.claim(due, "a")


async def test_a_call_through_a_black_hole_ends_at_its_deadline_and_the_next_one_works(
    cut_off, way, due, ask
):
    way.black_hole()
    with pytest.raises(TimeoutError):
        async with CLOCK.timeout(0.5):
            await cut_off.claim(due, "a")
    # and so does one that has to connect first
    with pytest.raises(TimeoutError):
        async with CLOCK.timeout(0.5):
            await cut_off.claim(due, "a")
    way.heal()
    # who had to wait for a connection may be told to come again
    with suppress(StoreUnavailable):
        await cut_off.time()

    assert (await cut_off.claim(due, "a")).outcome is Outcome.WON
    assert (await ask.claim(due, "b")).outcome is Outcome.DONE


async def test_nothing_of_a_call_that_was_given_up_is_sent_later(server, ask, due, connect):
    """Neither by the connection nor by one that the driver makes in its place."""
    server.pause()
    with pytest.raises(TimeoutError):
        async with CLOCK.timeout(0.3):
            await ask.claim(due, "a")
    server.resume()

    other = await connect(server.url())
    assert (await other.claim(due, "b")).outcome is Outcome.WON
    assert (await ask.claim(due, "a")).outcome is Outcome.DONE


async def test_claims_survive_a_killed_server(server, ask, due):
    """G2"""
    await ask.claim(due, "a")
    await ask.save(ended(due, RunState.FAILED, "no"))
    server.kill()
    with pytest.raises(StoreUnavailable):
        await ask.claim(due, "a")

    server.start()

    assert (await ask.claim(due, "a")).outcome is Outcome.WON
    assert (await ask.claim(due, "b")).outcome is Outcome.DONE
    assert (await ask.claim(due + SECOND, "b")).outcome is Outcome.WON
    assert ended(due, RunState.FAILED, "no") in await ask.history()


async def test_a_call_after_a_restart_that_nobody_noticed_works(server, ask, due):
    await ask.claim(due, "a")

    server.restart()

    assert (await ask.claim(due, "b")).outcome is Outcome.DONE


async def test_a_call_under_way_when_the_server_dies_ends_at_once(server, ask, due):
    server.pause()
    call = asyncio.ensure_future(ask.claim(due, "a"))
    await CLOCK.sleep(0.1)

    server.kill()

    with pytest.raises(StoreUnavailable):
        await call


async def test_the_driver_does_not_connect_by_itself(server, ask, due, admin):
    server.kill()
    server.start()
    async with Admin.of(server.url(login="sys:sys")) as system:
        names = await system.connections()

    assert "anarchon" not in names


async def test_streams_that_were_deleted_are_made_anew(server, admin, ask, due):
    """What they knew is lost; nothing else breaks."""
    await ask.claim(due, "a")
    await admin.delete_streams()

    with pytest.raises((StoreUnavailable, TimeoutError)):
        async with CLOCK.timeout(1):
            await ask.claim(due, "a")

    assert (await ask.claim(due, "b")).outcome is Outcome.WON


async def test_a_lost_history_keeps_no_slot_from_being_won(admin, ask, due, caplog):
    await admin.api(f"STREAM.DELETE.{NAMES.history}")

    with caplog.at_level("WARNING", logger="anarchon.backends.nats"):
        answers = [await ask.claim(due + count * SECOND, "a") for count in range(2)]

    assert [answer.outcome for answer in answers] == [Outcome.WON] * 2
    assert len(caplog.messages) == 1
    assert "the history cannot be written" in caplog.text
    with pytest.raises(StoreUnavailable):
        await ask.save(ended(due))
    assert await ask.save(ended(due))


async def test_what_is_no_claim_is_said_and_not_taken_for_one(admin, ask, due):
    await admin.publish(NAMES.claim("sync", int(due.timestamp()) * 1000), b"\x80\x04.")

    with pytest.raises(StoreError) as raised:
        await ask.claim(due, job="sync")

    assert NAMES.claims in str(raised.value)
    assert (await ask.claim(due, job="other")).outcome is Outcome.WON


async def test_what_is_no_history_is_said(admin, ask):
    await admin.publish(NAMES.runs("sync"), b"[]")

    with pytest.raises(StoreError) as raised:
        await ask.history("sync")

    assert NAMES.history in str(raised.value)
    assert await ask.history("other") == ()


async def test_another_server_of_the_url_is_asked_when_one_is_away(server, connect):
    with Proxy(("127.0.0.1", server.port)) as way:
        way.cut()
        ask = await connect(f"nats://127.0.0.1:{way.port},127.0.0.1:1,127.0.0.1:{server.port}")

        assert await ask.time()
