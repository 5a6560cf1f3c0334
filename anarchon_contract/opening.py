"""The fixtures that both suites have: a harness, and the stores that are opened on it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from datetime import datetime
from typing import Protocol

import pytest

from anarchon.calling import Connection
from anarchon_contract.needing import skip_without


class Opens(Protocol):
    """What the harnesses of both suites have."""

    @property
    def features(self) -> Collection[str]: ...

    @property
    def connect(self) -> Callable[..., Connection]: ...

    async def wipe(self) -> None: ...

    async def leftovers(self) -> Sequence[str]: ...


class Asks(Protocol):
    """What the askers of both suites have."""

    async def time(self) -> datetime: ...


@pytest.fixture
async def harness(
    open_harness: Callable[[], AbstractAsyncContextManager[Opens]], request: pytest.FixtureRequest
) -> AsyncIterator[Opens]:
    async with open_harness() as harness:
        skip_without(harness.features, request)
        await harness.wipe()
        yield harness
        assert list(await harness.leftovers()) == []
        await harness.wipe()


@pytest.fixture
async def connect(harness: Opens) -> AsyncIterator[Callable[..., Awaitable[Connection]]]:
    """A way to further open stores, of a namespace; they are closed after the test."""
    async with AsyncExitStack() as stack:

        async def opened(*namespace: str) -> Connection:
            store = harness.connect(*namespace)
            stack.push_async_callback(store.close)
            await store.open()
            return store

        yield opened


@pytest.fixture
async def store(connect: Callable[..., Awaitable[Connection]]) -> Connection:
    return await connect()


@pytest.fixture
async def now(ask: Asks) -> datetime:
    """The store's time at the start of the test, in whole seconds."""
    return (await ask.time()).replace(microsecond=0)
