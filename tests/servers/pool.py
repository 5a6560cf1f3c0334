"""The servers of one test process: started when first asked for, all stopped at its end."""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from tests.servers.binaries import Binaries
from tests.servers.catalog import CATALOG
from tests.servers.errors import Unavailable
from tests.servers.fetch import fetch
from tests.servers.folders import TemporaryFolder
from tests.servers.nats import NatsServer
from tests.servers.pgbouncer import PgBouncerServer
from tests.servers.postgres import PostgresServer
from tests.servers.process import Server
from tests.servers.rabbitmq import RabbitServer
from tests.servers.redis import RedisServer
from tests.servers.sqld import SqldServer

VARIABLE = "ANARCHON_REQUIRE_BACKENDS"
_KINDS: dict[str, type[Server]] = {
    "redis": RedisServer,
    "valkey": RedisServer,
    "postgres": PostgresServer,
    "pgbouncer": PgBouncerServer,
    "rabbitmq": RabbitServer,
    "nats": NatsServer,
    "sqld": SqldServer,
}


class Servers:
    """Starts servers, and stops every one of them when closed."""

    def __init__(self) -> None:
        self._folder: TemporaryFolder | None = None
        self._shared: dict[str, Server] = {}
        self._started: list[Server] = []
        self._failed: dict[str, Unavailable] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get(self, name: str) -> Server:
        """Return the running server of that name that this process shares.

        Raises: `Unavailable`.
        """
        if name not in self._shared:
            self._shared[name] = self.start(name)
        server = self._shared[name]
        # An earlier test may have left it paused or dead.
        server.resume()
        server.start()
        return server

    def start(self, name: str, options: Sequence[str] = ()) -> Server:
        """Start a server for the caller alone, with further arguments of its program.

        Raises: `Unavailable`.
        """
        server = self._make(name, options)
        self._started.append(server)
        server.start()
        return server

    def close(self) -> None:
        """Stop all servers and remove their data."""
        for server in self._started:
            server.stop()
        self._started.clear()
        self._shared.clear()
        if self._folder is not None:
            self._folder.remove()
            self._folder = None

    def _make(self, name: str, options: Sequence[str]) -> Server:
        recipe = CATALOG[name]
        binaries = Binaries(self._fetch(name), recipe.source.programs)
        if self._folder is None:
            self._folder = TemporaryFolder()
        folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self._folder.path))
        folder.chmod(0o755)
        return _KINDS[recipe.kind](recipe, binaries, folder, options)

    def _fetch(self, name: str) -> Path:
        # What could not be fetched is not tried again for each test.
        if name in self._failed:
            raise self._failed[name]
        try:
            return fetch(name)
        except Unavailable as error:
            self._failed[name] = error
            raise


def required_names() -> set[str]:
    """Return the servers whose absence must fail tests; the variable may name kinds, or `all`."""
    wanted = _wanted()
    kinds = {recipe.kind for recipe in CATALOG.values()}
    unknown = wanted - {"all"} - kinds - CATALOG.keys()
    if unknown:
        known = ", ".join(["all", *sorted(kinds), *CATALOG])
        raise ValueError(f"{VARIABLE} names {', '.join(sorted(unknown))}; there are {known}")
    return {
        recipe.name
        for recipe in CATALOG.values()
        if recipe.name in wanted or (not recipe.may_vanish and wanted & {"all", recipe.kind})
    }


def is_required(name: str) -> bool:
    """Tell whether the absence of this must fail tests, be it a server or not."""
    return name in required_names() or (name not in CATALOG and "all" in _wanted())


def _wanted() -> set[str]:
    return {word.strip() for word in os.environ.get(VARIABLE, "").split(",")} - {""}
