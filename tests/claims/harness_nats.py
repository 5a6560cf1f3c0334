"""NATS JetStream, seen from behind; the adapter gets the least rights that do."""

from __future__ import annotations

import atexit
import json
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import nats

import anarchon.backends.nats as package
from anarchon.backends.nats import NatsBackend, NatsStore
from anarchon.backends.nats.names import Names, token_of
from anarchon.clock import SystemClock
from anarchon_contract.claims.harness import NAMESPACE, Feature
from tests.servers import Server, Servers, ServersForTests
from tests.servers.nats import config

API = "$JS.API"


def rights(*namespaces: str) -> str:
    """Return what the package's documentation grants, for these namespaces."""
    assert package.__doc__
    _, _, after = package.__doc__.partition("::\n\n")
    granted, _, _ = after.partition("\n\n")
    assert "STREAM.INFO" in granted
    lists = ["".join(part.partition("]")[0]) for part in granted.split("[")[1:]]
    publish, subscribe = lists
    told = "".join(publish.replace("default", token_of(name)) for name in namespaces)
    return f"publish = [{told}]\nsubscribe = [{subscribe}]"


def user(name: str, password: str, permissions: str) -> str:
    """Return a user as a configuration has it."""
    return f'{{ user: "{name}", password: "{password}", permissions: {{ {permissions} }} }}'


@cache
def _server(name: str) -> Server:
    servers = Servers()
    atexit.register(servers.close)
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    path = Path(folder.name, "rights.conf")
    # one user for the namespace of most tests, with no right but those that are documented, and
    # one for tests whose namespaces have all names there are
    path.write_text(config(user("worker", "p@ss", rights(NAMESPACE))))
    return ServersForTests(servers).start(name, "-c", str(path))


@asynccontextmanager
async def open_harness(name: str) -> AsyncIterator[NatsHarness]:
    server = _server(name)
    address = f"127.0.0.1:{server.port}"
    admin = await nats.connect(f"nats://admin:admin@{address}", name="admin")
    system = await nats.connect(f"nats://sys:sys@{address}", name="system")
    try:
        yield NatsHarness(admin, system, address, server.name)
    finally:
        await admin.close()
        await system.close()


class NatsHarness:
    def __init__(self, admin: Any, system: Any, address: str, name: str) -> None:
        self._admin = admin
        self._system = system
        self._address = address
        self.features = frozenset(set(Feature) - (_LACKS if name == "nats-2.9" else set()))
        self.url = f"nats://worker:p%40ss@{address}"
        self.backend = NatsBackend(self.url)
        self._others = NatsBackend(f"nats://admin:admin@{address}")

    def connect(self, namespace: str = NAMESPACE) -> NatsStore:
        backend = self.backend if namespace == NAMESPACE else self._others
        return backend.connect(namespace)

    async def api(self, subject: str, **asked: Any) -> dict[str, Any]:
        body = json.dumps(asked).encode() if asked else b""
        answer = await self._admin.request(f"{API}.{subject}", body, timeout=20)
        told: dict[str, Any] = json.loads(answer.data)
        assert "error" not in told, told
        return told

    async def streams(self) -> list[str]:
        return (await self.api("STREAM.NAMES")).get("streams") or []

    async def wipe(self) -> None:
        for stream in await self.streams():
            await self.api(f"STREAM.DELETE.{stream}")

    async def empty(self) -> None:
        for stream in await self.streams():
            await self.api(f"STREAM.PURGE.{stream}")

    async def update(self, stream: str, **changed: Any) -> None:
        """Change the configuration of a stream."""
        known = (await self.api(f"STREAM.INFO.{stream}"))["config"]
        await self.api(f"STREAM.UPDATE.{stream}", **known | changed)

    async def stamp_newer_version(self) -> None:
        names = Names(NAMESPACE)
        await self.update(names.claims, description="anarchon claims, layout 999")

    async def leftovers(self) -> Sequence[str]:
        names = await self.streams()
        outside = [name for name in names if not name.startswith("anarchon-")]
        consumers = [
            f"a consumer of {name}"
            for name in names
            if (await self.api(f"STREAM.INFO.{name}"))["state"]["consumer_count"]
        ]
        return [*outside, *consumers, *await self._connections()]

    async def _connections(self) -> list[str]:
        # the server hears of a closed connection a moment after we closed it
        ours: list[str] = []
        for _ in range(100):
            answer = await self._system.request("$SYS.REQ.SERVER.PING.CONNZ", b"", timeout=20)
            every = json.loads(answer.data)["data"]["connections"]
            ours = [str(one) for one in every if one.get("name") not in ("admin", "system")]
            if not ours:
                break
            await SystemClock().sleep(0.01)
        return ours


#: Its servers before 2.10 do not tell their time.
_LACKS = {Feature.SERVER_CLOCK}
