"""The store in a SQLite file, seen from behind."""

from __future__ import annotations

import os
import sqlite3
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from datetime import datetime, timedelta

from anarchon.backends.sqlite import SQLiteBackend, SQLiteStore
from anarchon.backends.sqlite.thread import THREAD_NAME
from anarchon.clock import EPOCH, MILLISECOND, SystemClock, to_millis
from anarchon_contract.leases.harness import NAMESPACE, Feature

OF_JOB = "(select id from anarchon_job where namespace = ? and name = ?)"

_WALL = SystemClock().wall


@asynccontextmanager
async def open_harness(name: str) -> AsyncIterator[SQLiteHarness]:
    with tempfile.TemporaryDirectory(prefix="anarchon-") as folder:
        yield SQLiteHarness(os.path.join(folder, "store.db"))


@asynccontextmanager
async def open_held_harness(name: str) -> AsyncIterator[HeldSQLiteHarness]:
    with tempfile.TemporaryDirectory(prefix="anarchon-") as folder:
        yield HeldSQLiteHarness(os.path.join(folder, "store.db"))


class SQLiteHarness:
    features = frozenset({Feature.SCHEMA})

    def __init__(self, path: str, now: Callable[[], datetime] = _WALL) -> None:
        self._path = path
        self._now = now
        self._backend = SQLiteBackend(path, now=now)

    def connect(self, namespace: str = NAMESPACE) -> SQLiteStore:
        return self._backend.connect(namespace)

    async def wipe(self) -> None:
        for path in (self._path, *self._logs()):
            with suppress(FileNotFoundError):
                os.remove(path)

    def _logs(self) -> list[str]:
        paths = (f"{self._path}-wal", f"{self._path}-shm")
        return [path for path in paths if os.path.exists(path)]

    @contextmanager
    def _behind(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._path)) as connection, connection:
            yield connection

    async def empty(self) -> None:
        with self._behind() as connection:
            for table in ("job", "fingerprint", "run", "attempt"):
                connection.execute(f"delete from anarchon_{table}")

    async def lapse(self, job: str, slot: datetime) -> None:
        past = self._now() - timedelta(seconds=1)
        self._change(
            f"update anarchon_run set expires = ? where job = {OF_JOB} and slot = ?",
            [(to_millis(past), NAMESPACE, job, to_millis(slot))],
        )

    async def lower_floor(self, jobs: Sequence[str], floor: datetime) -> None:
        self._change(
            f"update anarchon_job set (floor, newest) = (?1, ?1) where id = {OF_JOB}",
            [(to_millis(floor), NAMESPACE, job) for job in jobs],
        )

    async def raise_fence(self, job: str, fence: int) -> None:
        self._change(
            f"update anarchon_job set fence = ? where id = {OF_JOB}", [(fence, NAMESPACE, job)]
        )

    async def age_fingerprint(self, job: str, fingerprint: str, by: timedelta) -> None:
        self._change(
            "update anarchon_fingerprint set last_seen = last_seen - ?"
            f" where job = {OF_JOB} and fingerprint = ?",
            [(by // MILLISECOND, NAMESPACE, job, fingerprint)],
        )

    async def stamp_newer_version(self) -> None:
        self._change("update anarchon_schema set version = version + ?", [(1,)])

    def _change(self, statement: str, values: Sequence[tuple[object, ...]]) -> None:
        with self._behind() as connection:
            changed = connection.executemany(statement, values).rowcount
        assert changed == len(values), "there is nothing to change"

    async def leftovers(self) -> Sequence[str]:
        left = []
        for thread in threading.enumerate():
            if thread.name.startswith(THREAD_NAME):
                thread.join(timeout=5)
                left += [f"thread {thread.name}"] if thread.is_alive() else []
        # the last connection to go takes the log along
        return [*left, *self._logs()]


class HeldSQLiteHarness(SQLiteHarness):
    def __init__(self, path: str) -> None:
        self._held = EPOCH
        super().__init__(path, lambda: self._held)

    async def set_clock(self, time: datetime) -> None:
        self._held = time
