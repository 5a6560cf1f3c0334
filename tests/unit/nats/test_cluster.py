"""Three servers that keep each claim on all of them, and lose their leader now and then."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import cast

import pytest

from anarchon.backends.nats import NatsBackend
from anarchon.clock import SystemClock
from anarchon.errors import StoreError
from anarchon.store import ClaimAnswer, Outcome
from anarchon_contract.claims.questions import Asker
from anarchon_contract.leases.questions import HOUR
from tests.servers import ServersForTests
from tests.servers.nats import NatsServer
from tests.unit.nats.admin import NAMES, NAMESPACE, Admin
from tests.unit.nats.conftest import VERSIONS

pytestmark = [pytest.mark.soak, pytest.mark.timeout(400)]

CLOCK = SystemClock()
CLIENTS = 6
KILLS = 6
GAP = timedelta(seconds=0.1)


@pytest.fixture(params=VERSIONS)
def trio(request: pytest.FixtureRequest, servers: ServersForTests) -> Iterator[list[NatsServer]]:
    routes = [f"nats://127.0.0.1:{_free_port()}" for _ in range(3)]
    members = [
        cast(
            NatsServer,
            servers.start(
                request.param,
                *("--name", f"n{number}", "--cluster_name", "tests"),
                *("--cluster", route, "--routes", ",".join(routes)),
            ),
        )
        for number, route in enumerate(routes)
    ]
    yield members
    for member in members:
        member.kill()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def _patiently(ask: Asker, slot, token: str, job: str = "sync") -> ClaimAnswer:
    """Ask until somebody answers, as the engine does: with one token a slot."""
    while True:
        try:
            async with CLOCK.timeout(3):
                return await ask.claim(slot, token, job=job, within=HOUR)
        except (StoreError, TimeoutError):
            await CLOCK.sleep(0.05)


async def test_each_slot_has_one_winner_though_leaders_are_killed(trio):
    """G1, G2"""
    url = ",".join(f"127.0.0.1:{member.port}" for member in trio)
    stores = [NatsBackend(f"nats://{url}?replicas=3").connect(NAMESPACE) for _ in range(CLIENTS)]
    asking = [Asker(store) for store in stores]
    due = CLOCK.wall().replace(microsecond=0) - timedelta(minutes=50)
    wins: Counter[int] = Counter()
    asked: set[int] = set()
    over = asyncio.Event()

    async def contend(number: int) -> None:
        for count in range(25_000):
            if over.is_set():
                break
            answer = await _patiently(asking[number], due + count * GAP, f"{number} {count}")
            asked.add(count)
            wins[count] += answer.outcome is Outcome.WON

    async def kill_leaders() -> None:
        for _ in range(KILLS):
            await CLOCK.sleep(2)
            while (leader := await _leader(trio)) is None:
                await CLOCK.sleep(0.1)
            leader.kill()
            await CLOCK.sleep(1)
            leader.start()
        over.set()

    await _patiently(asking[0], due - GAP, "first")
    await asyncio.gather(*map(contend, range(CLIENTS)), kill_leaders())
    known = [(await _patiently(asking[0], due + n * GAP, "other")).outcome for n in sorted(asked)]
    for store in stores:
        await store.close()

    doubled = [count for count in asked if wins[count] > 1]
    assert (doubled, [count for count in asked if not wins[count]]) == ([], [])
    assert set(known) == {Outcome.DONE}
    assert len(asked) > 100


async def _leader(trio: list[NatsServer]) -> NatsServer | None:
    for member in trio:
        try:
            async with CLOCK.timeout(2), Admin.of(member.url(), allow_reconnect=False) as admin:
                told = await admin.api(f"STREAM.INFO.{NAMES.claims}")
        except Exception:
            continue
        name = told.get("cluster", {}).get("leader")
        if name:
            return trio[int(name.removeprefix("n"))]
    return None
