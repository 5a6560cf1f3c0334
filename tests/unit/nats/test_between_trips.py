"""A server that goes away in a call, between one of its round trips and the next."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence

import pytest

from anarchon.backends.nats import NatsStore
from anarchon.backends.nats.connection import Answer, Request
from anarchon.backends.nats.link import Link
from anarchon.backends.nats.settings import read_url
from anarchon.backends.nats.streams import Streams
from anarchon.clock import SystemClock
from anarchon.errors import OutcomeUnknown, StoreError, StoreRefused, StoreUnavailable
from anarchon.store import Outcome
from anarchon_contract.claims.questions import Asker, scheduled
from anarchon_contract.leases.questions import HOUR
from tests.cluster.network import Proxy
from tests.unit.nats.admin import NAMES

WIDENING = "$JS.API.STREAM.UPDATE."
CLAIMING = "anarchon.unit.claim."

Happening = Callable[[], Awaitable[None]]
Let = Callable[..., None]


async def nothing() -> None:
    """Let nothing happen."""


@pytest.fixture
def link(cut_off: Asker) -> Link:
    assert isinstance(cut_off.store, NatsStore)
    return cut_off.store._link


@pytest.fixture
def let(monkeypatch: pytest.MonkeyPatch, link: Link) -> Let:
    """A way to let things happen around the next trip that begins with such a message."""

    def let(trip: str, *, before: Happening = nothing, after: Happening = nothing) -> None:
        ask = link.ask

        async def asked(requests: Sequence[Request], *, writes: bool = False) -> list[Answer]:
            if not requests[0].subject.startswith(trip):
                return await ask(requests, writes=writes)
            monkeypatch.setattr(link, "ask", ask)
            await before()
            answers = await ask(requests, writes=writes)
            await after()
            return answers

        monkeypatch.setattr(link, "ask", asked)

    return let


@pytest.fixture
def go_away(way: Proxy, link: Link) -> Happening:
    """The end of the connection, which is heard of at once."""

    async def go_away() -> None:
        connection = await link.open()
        way.cut()
        while connection.is_alive:
            await SystemClock().sleep(0.005)

    return go_away


async def test_a_claim_that_was_stored_is_not_said_to_have_done_nothing(
    let, go_away, way, cut_off, ask, due
):
    """G1"""
    let(CLAIMING, after=go_away)
    with pytest.raises(OutcomeUnknown):
        await cut_off.claim(due, "a")
    way.heal()

    assert (await ask.claim(due, "b")).outcome is Outcome.DONE
    assert (await cut_off.claim(due, "a")).outcome is Outcome.WON


async def test_nor_is_one_beside_another_whose_winner_cannot_be_asked_for(
    let, go_away, way, cut_off, ask, due
):
    async def be_faster() -> None:
        await ask.claim(due, "b", job="other")

    let(CLAIMING, before=be_faster, after=go_away)
    claims = [scheduled(due, "a"), scheduled(due, "a", job="other")]
    with pytest.raises(OutcomeUnknown):
        await cut_off.store.claim(claims)
    way.heal()

    reply = await cut_off.store.claim(claims)
    assert [answer.outcome for answer in reply.answers] == [Outcome.WON, Outcome.DONE]


async def test_a_claim_that_was_not_sent_yet_did_nothing(let, go_away, way, cut_off, due):
    let(CLAIMING, before=go_away)
    with pytest.raises(StoreUnavailable):
        await cut_off.claim(due, "a")
    way.heal()


async def test_an_outage_while_the_stream_is_told_to_remember_for_longer_is_no_more_than_that(
    let, go_away, way, cut_off, due
):
    let(WIDENING, before=go_away)
    with pytest.raises(StoreUnavailable):
        await cut_off.claim(due, "a", within=20 * HOUR)
    way.heal()

    assert (await cut_off.claim(due, "a", within=20 * HOUR)).outcome is Outcome.WON


async def test_a_server_that_refuses_to_have_it_remember_for_longer_is_not_asked_on(
    let, cut_off, admin, due
):
    async def change_it_otherwise() -> None:
        await admin.update(NAMES.claims, deny_purge=True)

    let(WIDENING, before=change_it_otherwise)
    with pytest.raises(StoreError) as raised:
        await cut_off.claim(due, "a", within=20 * HOUR)

    assert not isinstance(raised.value, StoreUnavailable)
    assert "it could not be changed" in raised.value.problem


@pytest.mark.parametrize(("code", "kind"), [(503, StoreUnavailable), (500, StoreRefused)])
def test_a_refusal_for_a_while_is_told_from_one_for_good(code, kind):
    told = {"error": {"code": code, "err_code": 10008, "description": "no"}}

    with pytest.raises(StoreUnavailable) as raised:
        Streams(read_url("nats://a"), NAMES).read(
            NAMES.claims, Answer(json.dumps(told).encode(), {})
        )

    assert type(raised.value) is kind
