"""How many slots one connection claims in a second, beside what its server can do at all."""

from __future__ import annotations

import asyncio
import secrets
import statistics
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from anarchon.run import Overlap, RunState
from anarchon.store import Claim, LeaseStore, Mode, Outcome, Registration, Terms
from benchmarks import limits
from benchmarks.leases import lease_backend
from benchmarks.stores import Store, Stores
from benchmarks.table import Peer, Row, skipped
from benchmarks.units import rate

_ROUNDS, _BATCH, _JOBS = 3, 500, 5_000
_LONGEST = 1.5
_TERMS = Terms(timedelta(minutes=5), Overlap.ALLOW, 3, RunState.RUNNING)


def measure(stores: Stores) -> Iterator[Row]:
    for name in stores.names:
        store = stores.get(name)
        if store is None:
            yield skipped(f"claims: {name}", stores.why(name))
        else:
            yield from _rows(store)


def _rows(store: Store) -> Iterator[Row]:
    single: list[float] = []
    batch: list[float] = []
    lost: list[float] = []
    single_limit: list[float] = []
    batch_limit: list[float] = []
    for number in range(_ROUNDS):
        single.append(asyncio.run(_measure(store, f"single-{number}", 1))[0])
        won, losing = asyncio.run(_measure(store, f"batch-{number}", _BATCH))
        batch.append(won)
        lost.append(losing)
        for size, found in ((1, single_limit), (_BATCH, batch_limit)):
            if (limit := limits.writes_a_second(store, size)) is not None:
                found.append(limit)
    what = limits.described(store)
    yield _row(f"claims: {store.name}, one at a time", single, what, single_limit)
    yield _row(
        f"claims: {store.name}, {_BATCH} a call", batch, f"{what}, {_BATCH} a trip", batch_limit
    )
    yield _row(f"claims: {store.name}, {_BATCH} a call, all lost", lost, "", [])


def _row(figure: str, ours: list[float], what: str, limit: list[float]) -> Row:
    measured = statistics.median(ours)
    peers = []
    if limit:
        most = statistics.median(limit)
        peers.append(Peer(what, rate(most), measured / most))
    return Row(figure, rate(measured), peers)


async def _measure(store: Store, fleet: str, size: int) -> tuple[float, float]:
    """Return how many claims a second are won on fresh jobs, and then lost on the same."""
    connection = lease_backend(store.url(fleet)).connect(fleet)
    await connection.open()
    try:
        jobs = [f"job-{number:05}" for number in range(_JOBS)]
        for some in _pieces(jobs, _BATCH):
            await connection.active([Registration(job, "edition") for job in some])
        # a slot lies above the floor of its job, which began at the registration
        await asyncio.sleep(0.05)
        slot = (await connection.active([])).time
        won = await _claims_a_second(connection, _pieces(jobs, size), slot, Outcome.WON)
        if size == 1:
            return won, 0.0
        return won, await _claims_a_second(connection, _pieces(jobs, size), slot, Outcome.RUNNING)
    finally:
        await connection.close()


async def _claims_a_second(
    store: LeaseStore, pieces: Sequence[Sequence[str]], slot: datetime, expected: Outcome
) -> float:
    asked = 0
    began = time.perf_counter()
    for piece in pieces:
        reply = await store.claim([_claim(job, slot) for job in piece])
        assert all(answer.outcome is expected for answer in reply.answers)
        asked += len(piece)
        if time.perf_counter() - began > _LONGEST:
            break
    return asked / (time.perf_counter() - began)


def _claim(job: str, slot: datetime) -> Claim:
    within = timedelta(minutes=5)
    return Claim(job, slot, secrets.token_hex(16), Mode.SCHEDULED, "benchmark", _TERMS, within)


def _pieces(jobs: Sequence[str], size: int) -> list[Sequence[str]]:
    return [jobs[start : start + size] for start in range(0, len(jobs), size)]
