"""One suite over all backends: each test runs once for each harness."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from importlib import import_module

import pytest

from anarchon.store import LeaseStore, Registration
from tests.contract.harness import NAMESPACE, Harness
from tests.contract.questions import DAY, JOB, MINUTE, Asker

#: Backend: the module that has its ``open_harness``. It is imported for its own tests only.
HARNESSES = {
    "memory": "tests.contract.harness_memory",
    **dict.fromkeys(
        ("redis-7.0", "redis-8.0", "valkey-8.0", "valkey-9"), "tests.contract.harness_redis"
    ),
    "sqlite": "tests.contract.harness_sqlite",
    **dict.fromkeys(("postgres-15", "postgres-18"), "tests.contract.harness_postgres"),
}

Connect = Callable[..., Awaitable[LeaseStore]]
Meet = Callable[..., Awaitable[None]]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(feature): skipped where a store does not have it")


# a server is then started by one of the processes only that share the tests
@pytest.fixture(
    params=[pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in HARNESSES]
)
async def harness(request: pytest.FixtureRequest) -> AsyncIterator[Harness]:
    needed = [feature for mark in request.node.iter_markers("needs") for feature in mark.args]
    opened = import_module(HARNESSES[request.param]).open_harness(request.param)
    async with opened as harness:
        for feature in needed:
            if feature not in harness.features:
                pytest.skip(f"{request.param}: not so that {feature}")
        await harness.wipe()
        yield harness
        assert list(await harness.leftovers()) == []
        await harness.wipe()


@pytest.fixture
async def connect(harness: Harness) -> AsyncIterator[Connect]:
    """A way to further open stores; they are closed after the test."""
    async with AsyncExitStack() as stack:

        async def opened(namespace: str = NAMESPACE) -> LeaseStore:
            store = harness.connect(namespace)
            stack.push_async_callback(store.close)
            await store.open()
            return store

        yield opened


@pytest.fixture
async def store(connect: Connect) -> LeaseStore:
    return await connect()


@pytest.fixture
async def ask(store: LeaseStore) -> Asker:
    return Asker(store)


@pytest.fixture
async def now(ask: Asker) -> datetime:
    """The store's time at the start of the test, in whole seconds."""
    return (await ask.time()).replace(microsecond=0)


@pytest.fixture
async def meet(harness: Harness, store: LeaseStore, now: datetime) -> Meet:
    """A way to make jobs that the store has known for long."""

    async def known(*jobs: str, since: timedelta = 365 * DAY) -> None:
        await store.active([Registration(job, "v1") for job in jobs])
        await harness.lower_floor(jobs, now - since)

    return known


@pytest.fixture
async def due(meet: Meet, now: datetime) -> datetime:
    """A slot of ``JOB``, due a minute ago; the job has been known for a year."""
    await meet(JOB)
    return now - MINUTE
