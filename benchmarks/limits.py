"""What a store's server can do at all over one connection, by the tools that came with it."""

from __future__ import annotations

import csv
import re
import sqlite3
import subprocess
import time
import uuid

from benchmarks.stores import Store
from tests.servers import Server

_SECONDS = 1.0
_DESCRIBED = {
    "sqlite": "sqlite3, one row inserted and committed",
    "redis": "redis-benchmark, one connection, EVAL of one HSET",
    "postgres": "pgbench, one connection, one row inserted",
}
_HSET = "return redis.call('hset', KEYS[1], 'field', ARGV[1])"
_TABLE = "benchmark_limit"
_INSERT = f"insert into {_TABLE} select gen_random_uuid(), clock_timestamp()"


def described(store: Store) -> str:
    """Say what was done."""
    return _DESCRIBED[_kind(store)]


def writes_a_second(store: Store, batch: int) -> float | None:
    """Return the least writes that claims could be, so many a trip; ``None`` without a tool."""
    kind = _kind(store)
    if kind == "sqlite":
        return _sqlite(store, batch)
    assert store.server is not None
    program = "redis-benchmark" if kind == "redis" else "pgbench"
    tool = store.tool(program)
    if tool is None:
        return None
    measure = _redis if kind == "redis" else _postgres
    return measure(store, store.server, tool, batch)


def _kind(store: Store) -> str:
    return "sqlite" if store.server is None else store.server.kind


def _sqlite(store: Store, batch: int) -> float:
    # the store's own settings: a log beside the file, and the disk awaited at each commit
    connection = sqlite3.connect(store.folder / "limit.db", isolation_level=None)
    try:
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = full")
        connection.execute(f"create table if not exists {_TABLE} (key text primary key, at real)")
        written = 0
        began = time.perf_counter()
        while (taken := time.perf_counter() - began) < _SECONDS:
            connection.execute("begin immediate")
            rows = [(uuid.uuid4().hex, taken) for _ in range(batch)]
            connection.executemany(f"insert into {_TABLE} values (?, ?)", rows)
            connection.execute("commit")
            written += batch
        return written / taken
    finally:
        connection.close()


def _redis(_: Store, server: Server, tool: list[str], batch: int) -> float:
    calls = 10_000 if batch == 1 else 100_000
    said = _output(
        server,
        [
            *(*tool, "--csv", "-p", str(server.port), "-c", "1", "-P", str(batch)),
            *("-n", str(calls), "-r", "100000"),
            *("eval", _HSET, "1", "limit:__rand_int__", "value"),
        ],
    )
    heading, *results = csv.reader(said.splitlines())
    return float(results[-1][heading.index("rps")])


def _postgres(store: Store, server: Server, tool: list[str], batch: int) -> float:
    file = store.folder / f"limit-{batch}.sql"
    file.write_text(f"{_INSERT} from generate_series(1, {batch});\n")
    setup = store.folder / "limit-table.sql"
    setup.write_text(f"create table if not exists {_TABLE} (key uuid primary key, at timestamptz);")
    pgbench = [*tool, "-n", "-h", "127.0.0.1", "-p", str(server.port), "-U", "postgres", "-c", "1"]
    _output(server, [*pgbench, "-t", "1", "-f", str(setup), "postgres"])
    said = _output(server, [*pgbench, "-T", "1", "-f", str(file), "postgres"])
    found = re.search(r"tps = ([\d.]+)", said)
    assert found is not None, said
    return float(found[1]) * batch


def _output(server: Server, command: list[str]) -> str:
    environment = dict(server.binaries.environment())
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    ).stdout
