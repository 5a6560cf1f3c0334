"""The store in a libSQL server, seen from behind."""

from __future__ import annotations

import atexit
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path

from anarchon.backends.libsql import LibSQLBackend, LibSQLStore
from anarchon.clock import EPOCH, MILLISECOND, SystemClock, to_millis
from anarchon_contract.leases.harness import NAMESPACE, Feature
from tests.servers import Servers, ServersForTests
from tests.servers.sqld import SqldServer

OF_JOB = "(select id from anarchon_job where namespace = ? and name = ?)"
CLOCK = "(select millis from anarchon_clock)"


@cache
def _servers() -> ServersForTests:
    servers = Servers()
    atexit.register(servers.close)
    return ServersForTests(servers)


@asynccontextmanager
async def open_harness(name: str) -> AsyncIterator[LibSQLHarness]:
    server = _servers().get(name)
    assert isinstance(server, SqldServer)
    yield LibSQLHarness(server)


@asynccontextmanager
async def open_held_harness(name: str) -> AsyncIterator[HeldLibSQLHarness]:
    async with open_harness(name) as harness:
        yield HeldLibSQLHarness(harness._server)


class LibSQLHarness:
    features = frozenset({Feature.SERVER_CLOCK, Feature.SCHEMA})

    def __init__(self, server: SqldServer) -> None:
        self._server = server
        self._backend = LibSQLBackend(server.url())

    def connect(self, namespace: str = NAMESPACE) -> LibSQLStore:
        return self._backend.connect(namespace)

    async def wipe(self) -> None:
        self._server.wipe()

    async def empty(self) -> None:
        self._server.run(
            *(f"delete from anarchon_{table}" for table in ("job", "fingerprint", "run", "attempt"))
        )

    async def lapse(self, job: str, slot: datetime) -> None:
        self._change(
            f"update anarchon_run set expires = {CLOCK} - 1000"
            f" where job = {OF_JOB} and slot = ? and expires is not null",
            (NAMESPACE, job, to_millis(slot)),
        )

    async def lower_floor(self, jobs: Sequence[str], floor: datetime) -> None:
        lower = f"update anarchon_job set floor = ?, newest = ? where id = {OF_JOB}"
        millis = to_millis(floor)
        done = self._server.run(*((lower, (millis, millis, NAMESPACE, job)) for job in jobs))
        assert done == [1] * len(jobs), "a job has no record"

    async def raise_fence(self, job: str, fence: int) -> None:
        self._change(
            f"update anarchon_job set fence = ? where id = {OF_JOB}", (fence, NAMESPACE, job)
        )

    async def age_fingerprint(self, job: str, fingerprint: str, by: timedelta) -> None:
        self._change(
            "update anarchon_fingerprint set last_seen = last_seen - ?"
            f" where job = {OF_JOB} and fingerprint = ?",
            (by // MILLISECOND, NAMESPACE, job, fingerprint),
        )

    async def stamp_newer_version(self) -> None:
        self._change(
            "insert into anarchon_migration select max(version) + 1 from anarchon_migration", ()
        )

    def _change(self, statement: str, values: tuple[str | int, ...]) -> None:
        assert self._server.run((statement, values)) == [1], "there is nothing to change"

    async def leftovers(self) -> Sequence[str]:
        # a connection ends a moment after it was closed
        left: list[str] = []
        for _ in range(100):
            left = [f"connection {inode}" for inode in _own_connections(self._server.port)]
            if not left:
                break
            await SystemClock().sleep(0.01)
        return left


def _own_connections(port: int) -> set[str]:
    """Return the sockets of this process that are connected to a port."""
    own = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            own.add(os.readlink(descriptor).removeprefix("socket:[").removesuffix("]"))
    lines = Path("/proc/self/net/tcp").read_text().splitlines()[1:]
    fields = (line.split() for line in lines)
    return own & {field[9] for field in fields if int(field[2].partition(":")[2], 16) == port}


class HeldLibSQLHarness(LibSQLHarness):
    def __init__(self, server: SqldServer) -> None:
        super().__init__(server)
        self._held = EPOCH

    async def set_clock(self, time: datetime) -> None:
        self._held = time
        self._server.run(
            "drop view if exists anarchon_clock",
            f"create view anarchon_clock as select {to_millis(time)} as millis",
        )
