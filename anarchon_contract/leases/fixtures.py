"""The fixtures of the suite; what a backend brings is ``open_harness`` and ``open_held_harness``.

Both are of the scope of the session, and return what opens a harness for one test; the second may
return ``None``: the clock of the store cannot be held then, and what needs that is skipped.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime, timedelta

import pytest

from anarchon.store import LeaseStore, Registration
from anarchon_contract.leases.harness import Harness, OpenHeldHarness
from anarchon_contract.leases.pair import ZERO, Pair, paired
from anarchon_contract.leases.questions import DAY, JOB, MINUTE, Asker
from anarchon_contract.opening import *  # noqa: F403

Meet = Callable[..., Awaitable[None]]


@pytest.fixture
async def ask(store: LeaseStore) -> Asker:
    return Asker(store)


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


@pytest.fixture(scope="module")
def opened(open_held_harness: OpenHeldHarness | None) -> Iterator[Pair]:
    with paired(open_held_harness, held=True) as pair:
        yield pair


@pytest.fixture
def pair(opened: Pair) -> Pair:
    """A store whose clock stands at ``ZERO``, and which has known ``JOB`` for a year."""
    opened.begin()
    opened.ask("active", [Registration(JOB, "v1")])
    opened.lower_floor([JOB], ZERO - 365 * DAY)
    return opened
