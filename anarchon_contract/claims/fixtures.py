"""The fixtures of the suite; what a backend brings is ``open_harness``.

It is of the scope of the session, and returns what opens a harness for one test.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import datetime

import pytest

from anarchon.claim_store import ClaimStore
from anarchon_contract.claims.harness import NAMESPACE, Harness, OpenHarness
from anarchon_contract.claims.questions import Asker
from anarchon_contract.leases.questions import MINUTE
from anarchon_contract.needing import skip_without

Connect = Callable[..., Awaitable[ClaimStore]]


@pytest.fixture
async def harness(
    open_harness: OpenHarness, request: pytest.FixtureRequest
) -> AsyncIterator[Harness]:
    async with open_harness() as harness:
        skip_without(harness.features, request)
        await harness.wipe()
        yield harness
        assert list(await harness.leftovers()) == []
        await harness.wipe()


@pytest.fixture
async def connect(harness: Harness) -> AsyncIterator[Connect]:
    """A way to further open stores; they are closed after the test."""
    async with AsyncExitStack() as stack:

        async def opened(namespace: str = NAMESPACE) -> ClaimStore:
            store = harness.connect(namespace)
            stack.push_async_callback(store.close)
            await store.open()
            return store

        yield opened


@pytest.fixture
async def store(connect: Connect) -> ClaimStore:
    return await connect()


@pytest.fixture
async def ask(store: ClaimStore) -> Asker:
    return Asker(store)


@pytest.fixture
async def now(ask: Asker) -> datetime:
    """The store's time at the start of the test, in whole seconds."""
    return (await ask.time()).replace(microsecond=0)


@pytest.fixture
async def due(now: datetime) -> datetime:
    """A slot that was due a minute ago."""
    return now - MINUTE
