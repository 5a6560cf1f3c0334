"""The check of a store: how it stands, and what it does not promise."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from anarchon import ClaimBackend, Job, Scheduler, Standing, StoreError
from anarchon.claim_store import AnyBackend
from anarchon.durations import describe
from anarchon_beat.check_findings import Findings
from anarchon_beat.origin import STORE


def examine(scheduler: Scheduler, findings: Findings) -> Standing | None:
    """Look at the store, and change nothing in it; ``None`` if it cannot serve."""
    try:
        standing = asyncio.run(scheduler.examine_store())
    except StoreError as error:
        findings.error(error)
        return None
    for doubt in standing.doubts:
        findings.warning(doubt, option=STORE)
    if not standing.is_prepared:
        findings.note(
            "nothing of this version is there yet; whoever starts first makes it", option=STORE
        )
    return standing


def check_promises(backend: AnyBackend, jobs: Sequence[Job], findings: Findings) -> None:
    """Say what a store without leases does not give; options that ask for it are errors."""
    if not isinstance(backend, ClaimBackend):
        return
    findings.note(
        "decides claims and keeps no leases: a run is not taken over and a missed slot not caught"
        " up, runs of one job may overlap, and nothing is tracked",
        option=STORE,
    )
    for job in () if backend.judges_time else jobs:
        remembered = backend.remembers(job.max_late)
        if remembered is not None:
            findings.note(
                f"remembers a claim for {describe(remembered)} at most: an instance that is frozen"
                " for longer right before it claims may win a slot again",
                (job.name,),
                STORE,
            )
