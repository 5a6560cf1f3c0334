"""What a message says of its run is what its worker reads, and nothing else is taken for it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from anarchon.message import Malformed, PublishedRun, mapping_of, run_of
from anarchon.run import OnStoreError, RunContext, Signal, Tracking

SLOT = datetime(2026, 3, 29, 1, 30, 0, 250_000, tzinfo=UTC)
TRACKING = Tracking(
    lease=timedelta(seconds=15),
    start_by=SLOT + timedelta(hours=1),
    on_store_error=OnStoreError.RETRY,
    timeout=None,
)


def context(tracking: Tracking | None = None) -> RunContext:
    return RunContext(
        job="sync",
        slot=SLOT,
        attempt=2,
        fence=1774747800250,
        token="t0",
        instance="here-1",
        namespace="shop",
        deadline=None,
        signal=Signal(),
        tracking=tracking,
    )


@pytest.mark.parametrize("tracking", [None, TRACKING])
def test_what_was_written_is_what_is_read(tracking: Tracking | None) -> None:
    read = run_of(json.loads(json.dumps(mapping_of(context(tracking)))))

    tracked = tracking is not None
    assert read == PublishedRun(
        namespace="shop",
        job="sync",
        slot=SLOT,
        attempt=2,
        token="t0",
        fence=1774747800250,
        lease=timedelta(seconds=15) if tracked else None,
        on_store_error=OnStoreError.RETRY if tracked else None,
    )
    assert read.is_tracked is tracked
    assert read.idempotency_key == context().idempotency_key


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("namespace", None),
        ("job", ""),
        ("slot", "yesterday"),
        ("slot", "2026-03-29T01:30:00"),
        ("attempt", 0),
        ("attempt", True),
        ("token", b"t0"),
        ("fence", "1"),
        ("lease", -1),
        ("lease", 10**18),
        ("on_store_error", "panic"),
    ],
)
def test_a_mapping_that_is_not_ours_is_refused_by_the_key_that_is_wrong(
    key: str, value: object
) -> None:
    said = {**mapping_of(context(TRACKING)), key: value}

    with pytest.raises(Malformed, match=f"its {key} is"):
        run_of(said)


@pytest.mark.parametrize("said", [None, "anarchon", ["job"], 7])
def test_what_is_no_mapping_is_refused(said: object) -> None:
    with pytest.raises(Malformed, match="is not a mapping"):
        run_of(said)
