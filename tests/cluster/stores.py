"""The stores that instances meet on: how each starts, where it is, and what can be done to it.

A further store joins by a class here and a line in `SHAPES`.
"""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

import asyncpg

from anarchon.testing.evidence import Fault
from tests.cluster.network import Address
from tests.servers import Server, ServersForTests
from tests.servers.process import HOST, exchange
from tests.servers.sqld import SqldServer


@dataclass(frozen=True)
class Harm:
    """Something done to a store for some seconds, and what it is to the instances."""

    kind: str
    inject: Callable[[], object]
    heal: Callable[[], object]
    causes: tuple[Fault, ...] = (Fault.AWAY,)


class Store(ABC):
    """A store under a test's command, from its making to `stop`."""

    #: Where a way to it may lead; ``None`` if it is no server.
    address: Address | None = None
    #: An instance's own wall clock may then show what it likes.
    has_its_own_clock = True
    keeps_leases = True

    @abstractmethod
    def url(self, host: str, port: int) -> str:
        """Return what an instance is told, which reaches it by this host and port."""

    @abstractmethod
    def harms(self) -> list[Harm]:
        """Return what can be done to it."""

    @abstractmethod
    def touch(self) -> None:
        """Write something, or fail in silence; always from one thread."""

    def let_go(self) -> None:  # noqa: B027  # not every store keeps something
        """Close what `touch` opened."""

    def is_blocked(self) -> bool:
        """Tell whether somebody who is frozen keeps all others from it."""
        return False

    @abstractmethod
    def stop(self) -> None:
        """End it."""


class _ServerStore(Store):
    def __init__(self, server: Server) -> None:
        self._server = server
        self.address = (HOST, server.port)

    def harms(self) -> list[Harm]:
        server = self._server
        return [
            Harm("store killed", server.kill, server.start),
            Harm("store restarted", server.stop, server.start),
            Harm("store paused", server.pause, server.resume),
        ]

    def stop(self) -> None:
        self._server.stop()


class RedisStore(_ServerStore):
    """A Redis or Valkey that has on disk whatever it acknowledged."""

    def __init__(self, servers: ServersForTests, folder: Path, name: str) -> None:
        # "everysec" may put off a write, and a kill then loses what was acknowledged
        super().__init__(servers.start(name, "--appendfsync", "always"))

    def url(self, host: str, port: int) -> str:
        return f"redis://{host}:{port}/0"

    def touch(self) -> None:
        with suppress(OSError):
            # answered once it is on disk, as a claim is
            exchange(self._server.port, b"SET pulse 1\r\n")

    def harms(self) -> list[Harm]:
        forgets = Harm(
            "store forgets", self._forget, self._server.start, (Fault.AWAY, Fault.FORGOT)
        )
        return [*super().harms(), forgets]

    def _forget(self) -> None:
        """Kill it, and leave it as one without persistence."""
        self._server.kill()
        for kept in self._server.folder.glob("appendonly*"):
            shutil.rmtree(kept) if kept.is_dir() else kept.unlink()


class PostgresStore(_ServerStore):
    """A PostgreSQL that forgets nothing when it is killed, as the machine stays up."""

    def __init__(self, servers: ServersForTests, folder: Path, name: str) -> None:
        super().__init__(servers.start(name))
        self._connection: asyncpg.Connection | None = None
        self._loop = asyncio.new_event_loop()

    def url(self, host: str, port: int) -> str:
        return f"postgresql://postgres@{host}:{port}/postgres"

    def touch(self) -> None:
        try:
            self._loop.run_until_complete(self._write())
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            self._drop()

    async def _write(self) -> None:
        if self._connection is None:
            self._connection = await asyncpg.connect(self._server.url(), timeout=5)
        await self._connection.execute("select pg_current_xact_id()", timeout=5)

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            # its socket is closed one turn later
            self._loop.run_until_complete(asyncio.sleep(0))
        self._connection = None

    def let_go(self) -> None:
        self._drop()
        # the driver may still be telling the server that a write is not wanted any more
        self._loop.run_until_complete(_end_all_tasks())

    def stop(self) -> None:
        super().stop()
        self._loop.close()


async def _end_all_tasks() -> None:
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


class LibSQLStore(_ServerStore):
    """A libSQL server, which forgets nothing when it is killed, as the machine stays up."""

    def __init__(self, servers: ServersForTests, folder: Path, name: str) -> None:
        server = servers.start(name)
        assert isinstance(server, SqldServer)
        super().__init__(server)
        self._sqld = server

    def url(self, host: str, port: int) -> str:
        return f"http+libsql://{host}:{port}"

    def touch(self) -> None:
        # without the tables nobody has opened it yet
        with suppress(OSError, HTTPException, AssertionError):
            self._sqld.run("update anarchon_migration set version = version")

    def harms(self) -> list[Harm]:
        forgets = Harm("store forgets", self._forget, self._sqld.start, (Fault.AWAY, Fault.FORGOT))
        return [*super().harms(), forgets]

    def _forget(self) -> None:
        """Kill it, and leave it as one on another disk."""
        self._sqld.kill()
        shutil.rmtree(self._sqld.folder / "data")


class SQLiteStore(Store):
    """A file, which somebody else may lock."""

    has_its_own_clock = False

    def __init__(self, servers: ServersForTests, folder: Path, name: str) -> None:
        self._path = folder / "anarchon.db"
        self._locker: sqlite3.Connection | None = None
        self._toucher: sqlite3.Connection | None = None

    def url(self, host: str, port: int) -> str:
        return f"sqlite:///{self._path}"

    def harms(self) -> list[Harm]:
        return [Harm("file locked", self._lock, self._unlock)]

    def touch(self) -> None:
        if self._toucher is None:
            # the thread's own
            self._toucher = sqlite3.connect(self._path, timeout=5, isolation_level=None)
        with suppress(sqlite3.OperationalError):
            self._toucher.execute("update anarchon_schema set version = version")

    def let_go(self) -> None:
        if self._toucher is not None:
            self._toucher.close()

    def is_blocked(self) -> bool:
        if self._locker is not None:
            return False
        try:
            self._lock(timeout=0.5)
        except sqlite3.OperationalError:
            return True
        finally:
            self._unlock()
        return False

    def _lock(self, timeout: float = 5.0) -> None:
        self._locker = sqlite3.connect(self._path, timeout=timeout, isolation_level=None)
        self._locker.execute("BEGIN EXCLUSIVE")

    def _unlock(self) -> None:
        if self._locker is not None:
            self._locker.close()
        self._locker = None

    def stop(self) -> None:
        self._unlock()


class _ClaimStore(_ServerStore):
    keeps_leases = False


class RedisClaimStore(RedisStore):
    """A Redis in one of its modes without leases."""

    keeps_leases = False

    def __init__(self, servers: ServersForTests, folder: Path, name: str) -> None:
        server, _, self._mode = name.partition(" ")
        super().__init__(servers, folder, server)

    def url(self, host: str, port: int) -> str:
        return f"redis://{host}:{port}/0?mode={self._mode}"


class RabbitMQStore(_ClaimStore):
    """A RabbitMQ, whose durable queues outlive it."""

    has_its_own_clock = False

    def __init__(self, servers: ServersForTests, folder: Path, name: str) -> None:
        super().__init__(servers.start(name))

    def url(self, host: str, port: int) -> str:
        return f"amqp://guest:guest@{host}:{port}//"

    def touch(self) -> None:
        with suppress(OSError):
            exchange(self._server.port, b"AMQP\x00\x00\x09\x01")


class NatsStore(_ClaimStore):
    """A NATS server that has in its files whatever it acknowledged, as the machine stays up."""

    def __init__(self, servers: ServersForTests, folder: Path, name: str) -> None:
        super().__init__(servers.start(name))

    def url(self, host: str, port: int) -> str:
        return f"nats://{host}:{port}"

    def touch(self) -> None:
        with suppress(OSError):
            exchange(self._server.port, b"PING\r\n")


SHAPES: dict[str, Callable[[ServersForTests, Path, str], Store]] = {
    "redis-8.0": RedisStore,
    "valkey-9": RedisStore,
    "postgres-18": PostgresStore,
    "sqld": LibSQLStore,
    "sqlite": SQLiteStore,
    "redis-8.0 script": RedisClaimStore,
    "redis-8.0 stream-id": RedisClaimStore,
    "redis-8.6 idmp": RedisClaimStore,
    "rabbitmq-3.10": RabbitMQStore,
    "nats-2.15": NatsStore,
}
CLAIMS_ONLY = tuple(
    name for name, shape in SHAPES.items() if not getattr(shape, "keeps_leases", True)
)


@contextmanager
def started(servers: ServersForTests, folder: Path, name: str) -> Iterator[Store]:
    """Start the store of this name for one test."""
    store = SHAPES[name](servers, folder, name)
    try:
        yield store
    finally:
        store.stop()
