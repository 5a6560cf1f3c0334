"""Redis and Valkey, seen from behind; the adapter gets the least rights that do."""

from __future__ import annotations

import atexit
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime, timedelta
from functools import cache
from hashlib import sha1
from typing import Any

import pytest
from redis.asyncio import Redis

import anarchon.backends.redis as package
from anarchon.backends.redis import RedisBackend, RedisStore, scripts
from anarchon.backends.redis.keys import Keys
from anarchon.backends.redis.scripts import Script
from anarchon.backends.redis.wire import Command
from anarchon.clock import EPOCH, MILLISECOND, SystemClock, to_millis
from anarchon_contract.leases.harness import NAMESPACE, Feature
from tests.servers import Servers, ServersForTests

READS_CLOCK = "redis.call('TIME')"
#: A further key that a held script is given: its name is the time, and it holds nothing.
HELD_CLOCK = "{string.match(KEYS[5], ' (%d+) (%d+)$')}"
USER = "worker"
PASSWORD = "p@ss"


def rights(where: str = "as ``ACL SETUSER`` takes them") -> list[str]:
    """Return what the package's documentation grants, after these words."""
    assert package.__doc__
    _, found, after = package.__doc__.partition(f"{where}::\n\n")
    assert found, f"nothing is granted {where}"
    granted, _, _ = after.partition("\n\n")
    return granted.split()


@cache
def _servers() -> ServersForTests:
    servers = Servers()
    atexit.register(servers.close)
    return ServersForTests(servers)


@asynccontextmanager
async def open_harness(name: str) -> AsyncIterator[RedisHarness]:
    server = _servers().get(name)
    async with AsyncExitStack() as stack:
        admin = await admitted(stack, server.port)
        yield RedisHarness([admin], f"redis://{USER}:p%40ss@127.0.0.1:{server.port}")


@asynccontextmanager
async def open_held_harness(name: str) -> AsyncIterator[HeldRedisHarness]:
    async with open_harness(name) as harness, held(harness) as opened:
        yield opened


async def admitted(stack: AsyncExitStack, port: int, *further: str) -> Redis:
    """Return a client of the server's owner, who has let in the user that the adapter is."""
    admin: Redis = Redis(port=port, decode_responses=True, single_connection_client=True)
    await stack.enter_async_context(admin)
    granted = (*rights(), *further)
    await admin.execute_command("ACL", "SETUSER", USER, "reset", "on", f">{PASSWORD}", *granted)
    return admin


@asynccontextmanager
async def held(harness: RedisHarness) -> AsyncIterator[HeldRedisHarness]:
    """Let every script read the time from the name of one more key."""
    opened = HeldRedisHarness(harness)
    call = RedisStore._call

    def call_with_time(
        store: RedisStore, script: Script, job: str, *arguments: str | int
    ) -> Command:
        name, sha, count, *rest = call(store, script, job, *arguments)
        assert count == 4
        tag, _, _ = str(rest[0]).rpartition(":")
        return (name, sha, 5, *rest[:4], f"{tag}:clock {opened.clock}", *rest[4:])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RedisStore, "_call", call_with_time)
        for attribute, script in vars(scripts).items():
            if isinstance(script, Script) and READS_CLOCK in script.source:
                on_held_time = _on_held_time(script)
                patch.setattr(scripts, attribute, on_held_time)
                patch.setitem(scripts.BY_SHA, on_held_time.sha, on_held_time)
        yield opened


def _on_held_time(script: Script) -> Script:
    assert script.source.count(READS_CLOCK) == 1
    source = script.source.replace(READS_CLOCK, HELD_CLOCK)
    return Script(source, sha1(source.encode(), usedforsecurity=False).hexdigest())


class RedisHarness:
    features = frozenset({Feature.SERVER_CLOCK, Feature.SCHEMA})

    def __init__(self, admins: Sequence[Redis], url: str) -> None:
        self.url = url
        self._admins: Sequence[Any] = admins
        self._backend = RedisBackend(url)
        self._keys = Keys(NAMESPACE)

    def connect(self, namespace: str = NAMESPACE) -> RedisStore:
        return self._backend.connect(namespace)

    def _admin_of(self, key: str) -> Any:
        """Return who is asked about a key."""
        (admin,) = self._admins
        return admin

    async def wipe(self) -> None:
        await self.empty()

    async def empty(self) -> None:
        for admin in self._admins:
            await admin.flushdb()

    async def _millis(self) -> int:
        seconds, micros = await self._admins[0].time()
        return int(seconds) * 1000 + int(micros) // 1000

    async def lapse(self, job: str, slot: datetime) -> None:
        _, _, open_runs, _ = self._keys.of_job(job)
        admin, member = self._admin_of(open_runs), str(to_millis(slot))
        past = await self._millis() - 1000
        assert await admin.zscore(open_runs, member), "it has no lease"
        await admin.zadd(open_runs, {member: past})

    async def lower_floor(self, jobs: Sequence[str], floor: datetime) -> None:
        millis = to_millis(floor)
        for job in jobs:
            record = await self._record_of(job)
            fields = dict.fromkeys(("floor", "newest"), millis)
            await self._admin_of(record).hset(record, mapping=fields)

    async def raise_fence(self, job: str, fence: int) -> None:
        record = await self._record_of(job)
        await self._admin_of(record).hset(record, "fence", fence)

    async def age_fingerprint(self, job: str, fingerprint: str, by: timedelta) -> None:
        record = await self._record_of(job)
        admin, field = self._admin_of(record), f"seen:{fingerprint}"
        first, last = (await admin.hget(record, field)).split()
        await admin.hset(record, field, f"{first} {int(last) - by // MILLISECOND}")

    async def _record_of(self, job: str) -> str:
        record, *_ = self._keys.of_job(job)
        assert await self._admin_of(record).hexists(record, "floor"), f"{job} has no record"
        return record

    async def stamp_newer_version(self) -> None:
        await self._admin_of(self._keys.layout).set(self._keys.layout, 999)

    async def leftovers(self) -> Sequence[str]:
        left: list[str] = []
        for admin in self._admins:
            keys = await admin.keys("*")
            left += [key for key in keys if not key.startswith("anarchon:")]
            left += [f"{key} would go" for key in keys if await admin.ttl(key) != -1]
            left += await connections(admin)
        return left


async def connections(admin: Any) -> list[str]:
    """Describe the adapter's connections, once they had time to go."""
    # the server hears of a closed connection a moment after we closed it
    ours: list[Any] = []
    for _ in range(100):
        ours = [c for c in await admin.client_list() if c["user"] == USER]
        if not ours:
            break
        await SystemClock().sleep(0.01)
    return [str(client) for client in ours]


class HeldRedisHarness(RedisHarness):
    def __init__(self, harness: RedisHarness) -> None:
        vars(self).update(vars(harness))
        self._admin_of = harness._admin_of  # type: ignore[method-assign]
        self._held = EPOCH

    @property
    def clock(self) -> str:
        """The time in seconds and microseconds, as the server would tell it."""
        seconds, rest = divmod(self._held - EPOCH, timedelta(seconds=1))
        return f"{seconds} {rest.microseconds}"

    async def set_clock(self, time: datetime) -> None:
        self._held = time

    async def _millis(self) -> int:
        return to_millis(self._held)
