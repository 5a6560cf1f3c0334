"""Redis and Valkey, seen from behind; the adapter gets the least rights that do."""

from __future__ import annotations

import atexit
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from redis.asyncio import Redis

import anarchon.backends.redis as package
from anarchon.backends.redis import RedisBackend, RedisStore
from anarchon.backends.redis.keys import Keys
from anarchon.clock import MILLISECOND, SystemClock, to_millis
from tests.contract.harness import NAMESPACE, Feature
from tests.servers import Servers, ServersForTests


def rights() -> list[str]:
    """Return what the package's documentation grants."""
    assert package.__doc__
    _, _, after = package.__doc__.partition("::\n\n")
    granted, _, _ = after.partition("\n\n")
    assert "+evalsha" in granted
    return granted.split()


@cache
def _servers() -> ServersForTests:
    servers = Servers()
    atexit.register(servers.close)
    return ServersForTests(servers)


@asynccontextmanager
async def open_harness(name: str) -> AsyncIterator[RedisHarness]:
    server = _servers().get(name)
    admin: Redis = Redis(port=server.port, decode_responses=True, single_connection_client=True)
    async with admin:
        await admin.execute_command("ACL", "SETUSER", "worker", "reset", "on", ">p@ss", *rights())
        yield RedisHarness(admin, f"redis://worker:p%40ss@127.0.0.1:{server.port}")


class RedisHarness:
    features = frozenset({Feature.SERVER_CLOCK, Feature.SCHEMA})

    def __init__(self, admin: Redis, url: str) -> None:
        self._admin: Any = admin
        self._backend = RedisBackend(url)
        self._keys = Keys(NAMESPACE)

    def connect(self, namespace: str = NAMESPACE) -> RedisStore:
        return self._backend.connect(namespace)

    async def wipe(self) -> None:
        await self._admin.flushdb()

    async def lapse(self, job: str, slot: datetime) -> None:
        _, _, open_runs, _ = self._keys.of_job(job)
        seconds, _ = await self._admin.time()
        member = str(to_millis(slot))
        assert await self._admin.zscore(open_runs, member), "it has no lease"
        await self._admin.zadd(open_runs, {member: (seconds - 1) * 1000})

    async def lower_floor(self, jobs: Sequence[str], floor: datetime) -> None:
        for job in jobs:
            record, *_ = self._keys.of_job(job)
            assert await self._admin.hexists(record, "floor"), f"{job} has no record"
            await self._admin.hset(record, "floor", to_millis(floor))

    async def raise_fence(self, job: str, fence: int) -> None:
        record, *_ = self._keys.of_job(job)
        assert await self._admin.hexists(record, "floor"), f"{job} has no record"
        await self._admin.hset(record, "fence", fence)

    async def age_fingerprint(self, job: str, fingerprint: str, by: timedelta) -> None:
        record, *_ = self._keys.of_job(job)
        first, last = (await self._admin.hget(record, f"seen:{fingerprint}")).split()
        aged = f"{first} {int(last) - by // MILLISECOND}"
        await self._admin.hset(record, f"seen:{fingerprint}", aged)

    async def stamp_newer_version(self) -> None:
        await self._admin.set(self._keys.layout, 999)

    async def leftovers(self) -> Sequence[str]:
        keys = await self._admin.keys("*")
        outside = [key for key in keys if not key.startswith("anarchon:")]
        ending = [f"{key} would go" for key in keys if await self._admin.ttl(key) != -1]
        return [*outside, *ending, *await self._connections()]

    async def _connections(self) -> list[str]:
        # the server hears of a closed connection a moment after we closed it
        own = await self._admin.client_id()
        others: list[Any] = []
        for _ in range(100):
            others = [c for c in await self._admin.client_list() if int(c["id"]) != own]
            if not others:
                break
            await SystemClock().sleep(0.01)
        return [str(client) for client in others]
