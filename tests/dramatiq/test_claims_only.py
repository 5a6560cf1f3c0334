"""A Dramatiq worker on a store that only decides claims."""

import pytest

from anarchon.backends.memory_claims import MemoryClaimBackend
from tests.celery.tracked import TestStore
from tests.dramatiq.conftest import Make


def test_a_worker_on_it_runs_a_tracked_message_untracked_and_says_so_once(
    make: Make, store: TestStore, caplog: pytest.LogCaptureFixture
) -> None:
    bench = make(MemoryClaimBackend())
    actor = bench.actor(lambda: None)
    bench.start()

    for _ in range(2):
        bench.send(actor, store.publishable())
    bench.settle()

    assert len(bench.bodies) == 2
    assert caplog.text.count("keeps no leases") == 1
