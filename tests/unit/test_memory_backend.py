"""The store in memory, apart from the rules it shares with the others."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from anarchon.backends.memory import MemoryBackend
from anarchon.run import Overlap, RunState
from anarchon.store import Claim, Mode, Outcome, Registration, Terms

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
TERMS = Terms(timedelta(seconds=15), Overlap.SKIP, 3, RunState.RUNNING)


class Hand:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.time = NOW

    def __call__(self) -> datetime:
        return self.time


def _claim(token: str, mode: Mode = Mode.SCHEDULED) -> Claim:
    slot = NOW + timedelta(seconds=10)
    return Claim("sync", slot, token, mode, "web-1", TERMS, timedelta(minutes=5))


async def test_the_clock_that_is_handed_in_is_the_stores():
    hand = Hand()
    store = MemoryBackend(now=hand).connect("default")
    await store.active([Registration("sync", "v1")])

    early = await store.claim([_claim("a")])
    hand.time += timedelta(seconds=10)
    won = await store.claim([_claim("a")])
    hand.time += timedelta(seconds=15)
    taken = await store.claim([_claim("b", Mode.TAKEOVER)])

    assert early.answers[0].outcome is Outcome.NONE
    assert won.answers[0].outcome is Outcome.WON
    assert (taken.answers[0].outcome, taken.answers[0].attempt) == (Outcome.WON, 2)
    assert taken.time == hand.time


async def test_stores_of_one_backend_and_namespace_share_what_is_kept():
    backend = MemoryBackend(now=Hand())
    await backend.connect("default").active([Registration("sync", "v1")])

    shared = await backend.connect("default").active([Registration("sync", "v2")])
    apart = await backend.connect("other").active([Registration("sync", "v2")])

    assert [name for name, _ in shared.answers[0].others] == ["v1"]
    assert apart.answers[0].others == ()


async def test_two_urls_never_meet():
    first, second = (MemoryBackend.from_url("memory://").connect("default") for _ in range(2))
    await first.active([Registration("sync", "v1")])

    reply = await second.active([Registration("sync", "v2")])

    assert reply.answers[0].others == ()


def test_a_backend_shows_what_it_is():
    backend = MemoryBackend()
    backend.connect("default")

    assert backend.label == backend.connect("default").label == "memory://"
    assert repr(backend) == "<MemoryBackend: 1 namespaces>"
