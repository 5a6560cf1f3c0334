"""What a store counts itself: the commands it was sent, and what it wrote."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Protocol

import asyncpg
import redis

from benchmarks.stores import Store

#: Of these we are the sender.
_OURS = ("cmdstat_info", "cmdstat_config")


class Counter(Protocol):
    """Numbers that only grow, each with the name the table gives it."""

    async def read(self) -> Mapping[str, float]:
        """Return them as they stand."""


def counter_of(store: Store) -> Counter:
    """Return what counts on this store."""
    if store.server is None:
        return _Nothing()
    return _Redis(store.url("")) if store.server.kind == "redis" else _Postgres(store.url(""))


class _Nothing:
    """A file counts nothing: each call of an instance is one transaction."""

    async def read(self) -> Mapping[str, float]:
        return {}


class _Redis:
    """Commands that came from outside, and those that scripts made of them."""

    def __init__(self, url: str) -> None:
        self._client: redis.Redis = redis.Redis.from_url(url)

    async def read(self) -> Mapping[str, float]:
        found = await asyncio.to_thread(self._client.info, "commandstats")
        assert isinstance(found, dict)
        calls = {name: each["calls"] for name, each in found.items() if name not in _OURS}
        scripts = sum(count for name, count in calls.items() if "eval" in name or "fcall" in name)
        return {"commands": sum(calls.values()), "scripts": scripts}


class _Postgres:
    """Statements, and the bytes of the log that all writes go through."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def read(self) -> Mapping[str, float]:
        connection = await asyncpg.connect(self._url)
        try:
            await connection.execute("create extension if not exists pg_stat_statements")
            row = await connection.fetchrow(
                "select (select coalesce(sum(calls), 0) from pg_stat_statements"
                " where query not ilike '%pg_stat_statements%')::float as statements,"
                " (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::float as written"
            )
            assert row is not None
            return {"statements": row["statements"], "bytes of WAL": row["written"]}
        finally:
            await connection.close()
