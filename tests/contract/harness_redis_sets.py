"""Redis behind sentinels, and as a cluster, seen from behind; otherwise as one server."""

from __future__ import annotations

import atexit
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache
from typing import Any

from redis import Redis as BlockingRedis
from redis.asyncio import Redis
from redis.crc import key_slot

from tests.contract.harness_redis import (
    PASSWORD,
    USER,
    HeldRedisHarness,
    RedisHarness,
    admitted,
    held,
    rights,
)
from tests.servers import Servers, ServersForTests
from tests.servers.cluster import ClusterSet
from tests.servers.sentinel import SentinelSet

LOGIN = f"{USER}:p%40ss@"
#: Name of the harness: which servers the set is made of.
VERSIONS = {
    "sentinel": "valkey-9",
    "sentinel-redis": "redis-7.0",
    "cluster": "redis-8.0",
    "cluster-valkey": "valkey-9",
    "cluster-8.6": "redis-8.6",
}


@cache
def _servers() -> ServersForTests:
    servers = Servers()
    atexit.register(servers.close)
    return ServersForTests(servers)


@cache
def _sentinels(version: str) -> SentinelSet:
    made = SentinelSet(_servers(), version)
    atexit.register(made.close)
    for sentinel in made.sentinels:
        with BlockingRedis(port=sentinel.port) as admin:
            granted = ["reset", "on", f">{PASSWORD}", *rights("on each sentinel")]
            admin.execute_command("ACL", "SETUSER", USER, *granted)
    return made


@cache
def _cluster(version: str) -> ClusterSet:
    made = ClusterSet(_servers(), version)
    atexit.register(made.close)
    return made


@asynccontextmanager
async def open_harness(name: str) -> AsyncIterator[RedisHarness]:
    async with AsyncExitStack() as stack:
        if name.startswith("sentinel"):
            yield await _behind_sentinels(stack, _sentinels(VERSIONS[name]))
        else:
            yield await _in_a_cluster(stack, _cluster(VERSIONS[name]))


@asynccontextmanager
async def open_held_harness(name: str) -> AsyncIterator[HeldRedisHarness]:
    async with open_harness(name) as harness, held(harness) as opened:
        yield opened


async def _behind_sentinels(stack: AsyncExitStack, made: SentinelSet) -> RedisHarness:
    admin = await admitted(stack, made.primary().port)
    logins = {"sentinel_username": USER, "sentinel_password": "p%40ss"}
    return RedisHarness([admin], made.url(LOGIN, **logins))


async def _in_a_cluster(stack: AsyncExitStack, made: ClusterSet) -> RedisHarness:
    granted = rights("on each node of a cluster, besides")
    admins = {n.port: await admitted(stack, n.port, *granted) for n in made.nodes}
    # nobody moves slots here
    homes = {slot: admins[node.port] for slot, node in made.homes().items()}
    return ClusterHarness(list(admins.values()), made.url(LOGIN), homes)


class ClusterHarness(RedisHarness):
    def __init__(self, admins: list[Redis], url: str, homes: Mapping[int, Redis]) -> None:
        super().__init__(admins, url)
        self._homes = homes

    def _admin_of(self, key: str) -> Any:
        return self._homes[key_slot(key.encode())]
