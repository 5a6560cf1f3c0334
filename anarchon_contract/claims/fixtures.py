"""The fixtures of the suite; what a backend brings is ``open_harness``.

It is of the scope of the session, and returns what opens a harness for one test.
"""

from __future__ import annotations

from datetime import datetime

import pytest

from anarchon.claim_store import ClaimStore
from anarchon_contract.claims.questions import Asker
from anarchon_contract.leases.questions import MINUTE
from anarchon_contract.opening import *  # noqa: F403


@pytest.fixture
async def ask(store: ClaimStore) -> Asker:
    return Asker(store)


@pytest.fixture
async def due(now: datetime) -> datetime:
    """A slot that was due a minute ago."""
    return now - MINUTE
