"""A Celery project on a store that only decides claims."""

from datetime import timedelta
from pathlib import Path

import pytest
from celery import Celery

from anarchon.backends.memory_claims import MemoryClaimBackend
from anarchon_celery import InvalidEntries, scheduler_for, tracking_worker
from anarchon_celery.tracking_worker import WorkerTracking
from tests.celery.test_fleets import until_published
from tests.celery.tracked import NAMESPACE, TestStore


async def test_every_slot_is_published_once(app: Celery) -> None:
    """G1, G2."""
    app.conf.beat_schedule = {"job": {"task": "proj.note", "schedule": timedelta(seconds=0.3)}}
    backend = MemoryClaimBackend()

    fleet = [scheduler_for(app, store=backend, name=str(n)) for n in range(3)]
    await until_published(fleet, 4)

    history = await fleet[0].history("job")
    assert len({attempt.slot for attempt in history}) == len(history) >= 4
    assert {attempt.state.value for attempt in history} == {"published"}


def test_an_entry_that_is_to_be_tracked_is_refused(app: Celery) -> None:
    app.conf.beat_schedule = {
        "job": {"task": "proj.note", "schedule": 60, "options": {"anarchon": {"track": True}}}
    }

    with pytest.raises(InvalidEntries, match=r"'job': track: it needs a store that keeps leases"):
        scheduler_for(app, store=MemoryClaimBackend())


def test_a_worker_on_it_runs_a_tracked_message_untracked_and_says_so_once(
    app: Celery,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(tracking_worker, "open_backend", lambda url: MemoryClaimBackend())
    app.conf.anarchon_namespace = NAMESPACE
    worker, said = WorkerTracking(app), TestStore(f"sqlite:///{tmp_path}/store.db").publishable()

    assert worker.run_said(said) is None
    assert worker.run_said(said) is None

    assert caplog.text.count("keeps no leases") == 1
