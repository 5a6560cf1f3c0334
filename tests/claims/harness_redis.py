"""The modes of Redis and Valkey without leases, seen from behind; with the least rights that do.

What is behind them is what is behind the mode with leases.
"""

from __future__ import annotations

import atexit
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache

from anarchon.backends.redis import RedisClaimBackend, RedisClaimStore, claim_backend
from anarchon.backends.redis.keys import Keys
from anarchon_contract.claims.harness import NAMESPACE, Feature
from tests.contract import harness_redis, harness_redis_sets
from tests.contract.harness_redis import PASSWORD, USER, connections
from tests.servers import Server, Servers, ServersForTests, Unavailable


@cache
def _servers() -> Servers:
    servers = Servers()
    atexit.register(servers.close)
    return servers


def server_for(name: str, mode: str) -> Server:
    """Return a running server; 8.6 may be had no more one day, and two modes do without."""
    if mode != "idmp" and name == "redis-8.6":
        try:
            return _servers().get(name)
        except Unavailable:
            name = "redis-8.0"
    return ServersForTests(_servers()).get(name)


def rights(mode: str) -> list[str]:
    """Return what the documentation grants for a mode."""
    assert claim_backend.__doc__
    _, _, after = claim_backend.__doc__.partition("::\n\n")
    granted, _, _ = after.partition("\n\n")
    assert "+evalsha" in granted
    return [*granted.split(), *(["+xcfgset"] if mode == "idmp" else [])]


@asynccontextmanager
async def open_harness(name: str) -> AsyncIterator[RedisHarness]:
    place, _, mode = name.partition(" ")
    granted = ["reset", "on", f">{PASSWORD}", *rights(mode)]
    if place in harness_redis_sets.VERSIONS:
        opened = harness_redis_sets.open_harness(place)
        granted += harness_redis.rights("on each node of a cluster, besides")
    else:
        opened = harness_redis.open_harness(server_for(place, mode).name)
    async with opened as beneath:
        for admin in beneath._admins:
            await admin.execute_command("ACL", "SETUSER", USER, *granted)
        yield RedisHarness(beneath, mode)


class RedisHarness:
    def __init__(self, beneath: harness_redis.RedisHarness, mode: str) -> None:
        self._beneath = beneath
        self.url = f"{beneath.url}{'&' if '?' in beneath.url else '?'}mode={mode}"
        lacking = {Feature.ANY_ORDER} if mode == "stream-id" else set()
        self.features = frozenset(Feature) - lacking
        self.backend = RedisClaimBackend(self.url)

    def connect(self, namespace: str = NAMESPACE) -> RedisClaimStore:
        return self.backend.connect(namespace)

    async def wipe(self) -> None:
        await self._beneath.wipe()

    async def empty(self) -> None:
        await self._beneath.empty()

    async def stamp_newer_version(self) -> None:
        key = Keys(NAMESPACE).layout
        await self._beneath._admin_of(key).set(key, 999)

    async def leftovers(self) -> Sequence[str]:
        left: list[str] = []
        for admin in self._beneath._admins:
            keys = await admin.keys("*")
            left += [key for key in keys if not key.startswith("anarchon:")]
            # the claims of slots are many, and must go; what there is one of for each job stays
            claims = [key for key in keys if ":claim:" in key]
            left += [f"{key} stays" for key in claims if await admin.ttl(key) == -1]
            left += await connections(admin)
        return left
