"""What a store decides by its own clock, it decides by the very time that it answers with.

The clock of ``test_model.py`` is held; this one runs, and is the server's own. A slot, the
end of what is in time and the end of a lease lie within the time that a question takes, so
that it may come before them, after them, or at the very millisecond: which it was is told by
the time of the reply, and the rules at that time must answer the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from anarchon.clock import MILLISECOND
from anarchon.run import Overlap
from anarchon.store import Mode, Outcome, Registration, Renewal
from anarchon_contract.leases.model import MemoryHarness
from anarchon_contract.leases.questions import DAY, JOB, claim_of

ROUNDS = 60
#: A server so fast that nothing comes between two questions is asked more often.
MOST_ROUNDS = 3000
FOR_LONG = 365 * DAY


@pytest.fixture
async def both(harness, store, meet, now):
    """The store, and the rules at the time that it answered with; both know the job for long."""
    if isinstance(harness, MemoryHarness):
        pytest.skip("the model is the store in memory itself")
    both = Both(store, now)
    await both.meet()
    await meet(JOB)
    return both


class Both:
    def __init__(self, store, now):
        self.time = now
        self._store = store
        self._harness = MemoryHarness(lambda: self.time)
        self._model = self._harness.connect()

    async def meet(self):
        await self._model.active([Registration(JOB, "v1")])
        await self._harness.lower_floor([JOB], self.time - FOR_LONG)

    async def ask(self, kind, question):
        """Ask the store, and the rules at the time it answered with."""
        reply = await getattr(self._store, kind)([question])
        self.time = reply.time
        assert reply == await getattr(self._model, kind)([question]), question
        return reply.answers[0]


def rounds(wanted: set[Any], heard: Counter[Any]) -> Iterator[int]:
    """Count rounds, and go on until all that is wanted was heard."""
    for number in range(MOST_ROUNDS):
        if number >= ROUNDS and wanted <= set(heard):
            return
        yield number


async def test_a_slot_is_due_and_late_by_the_time_of_the_answer(store, both):
    random = Random(1)
    heard: Counter[Outcome] = Counter()
    wanted = {Outcome.NONE, Outcome.WON, Outcome.LATE}
    trip = 1
    for number in rounds(wanted, heard):
        before = (await store.active(())).time
        # a server that is busy takes longer, and everything is put further apart
        slot = before + random.randint(-trip - 1, 3 * trip) * MILLISECOND
        within = random.randint(0, trip) * MILLISECOND
        claim = claim_of(slot, f"t{number}", within=within, overlap=Overlap.ALLOW)

        answer = await both.ask("claim", claim)

        heard[answer.outcome] += 1
        trip = max(1, (both.time - before) // MILLISECOND)
    assert wanted <= set(heard), heard


async def test_a_lease_lapses_by_the_time_of_the_answer(both, now):
    random = Random(1)
    heard: Counter[bool] = Counter()
    trip = 1
    for number in rounds({True, False}, heard):
        slot = now - (number + 1) * MILLISECOND
        lease = random.randint(1, 2 * trip + 1) * MILLISECOND
        claim = claim_of(slot, "a", lease=lease, within=DAY, overlap=Overlap.ALLOW)
        await both.ask("claim", claim)
        granted = both.time

        renewed = await both.ask("renew", Renewal(JOB, slot, "a"))

        trip = max(1, (both.time - granted) // MILLISECOND)
        look = claim_of(slot, "b", mode=Mode.TAKEOVER, overlap=Overlap.ALLOW)
        await both.ask("claim", look)
        heard[renewed] += 1
    assert {True, False} <= set(heard), heard
