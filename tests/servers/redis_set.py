"""Servers of Redis or Valkey that belong together: a set is started, and ended, as one."""

import tempfile
from pathlib import Path
from typing import TypeVar

from tests.servers.binaries import Binaries
from tests.servers.catalog import CATALOG
from tests.servers.certificates import Certificates, make_certificates
from tests.servers.folders import TemporaryFolder
from tests.servers.redis import RedisServer
from tests.servers.required import ServersForTests, ask_or_skip

S = TypeVar("S", bound=RedisServer)


class RedisSet:
    """Several servers that belong together; ended as one, together with their data."""

    def __init__(self, servers: ServersForTests, name: str) -> None:
        self.name = name
        self._recipe = CATALOG[name]
        self._binaries = Binaries(servers.fetched(name), self._recipe.source.programs)
        self._folder = TemporaryFolder()
        self._members: list[RedisServer] = []

    def add(self, kind: type[S], *options: str) -> S:
        """Start a further server."""
        folder = Path(tempfile.mkdtemp(prefix=f"{self.name}-", dir=self._folder.path))
        server = kind(self._recipe, self._binaries, folder, options)
        self._members.append(server)
        ask_or_skip(self.name, server.start)
        return server

    def close(self) -> None:
        """Kill them all: a stop would wait for replicas that are gone."""
        for server in reversed(self._members):
            server.kill()
        self._folder.remove()

    def certificates(self) -> Certificates:
        """Make an authority of this set's own, and a certificate of this machine's."""
        return ask_or_skip(self.name, lambda: make_certificates(self._folder.path))


def tls_options(made: Certificates) -> list[str]:
    """Return what makes a server use certificates, and ask for none from clients."""
    return [
        *("--tls-cert-file", str(made.certificate), "--tls-key-file", str(made.key)),
        *("--tls-ca-cert-file", str(made.authority), "--tls-auth-clients", "no"),
    ]
