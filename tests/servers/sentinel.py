"""Starts a Redis or Valkey primary with a replica, and the sentinels that watch over both."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from redis import Redis
from redis.exceptions import RedisError

from tests.servers.process import HOST, Server
from tests.servers.redis import RedisServer
from tests.servers.redis_set import RedisSet, tls_options
from tests.servers.required import ServersForTests

SERVICE = "main"


class SentinelServer(RedisServer):
    """A sentinel; its configuration is also where it keeps what it knows."""

    def _prepare(self) -> None:
        lines = [f"dir {self.folder}", *self._options]
        (self.folder / "sentinel.conf").write_text("\n".join(lines) + "\n")

    def _command(self) -> list[str]:
        program = self.binaries.command(self._program())
        ports = ["--port", str(self.port), "--bind", HOST]
        if self._option("tls-cert-file"):
            ports += ["--tls-port", str(self.tls_port)]
        return [*program, str(self.folder / "sentinel.conf"), "--sentinel", *ports]

    def _option(self, name: str) -> str:
        return next((o.split()[1] for o in self._options if o.startswith(name.lstrip("-"))), "")


class SentinelSet(RedisSet):
    """A primary, a replica and three sentinels, who agree on a failover when two of them do.

    ``down_after`` are the seconds after which a server that does not answer is down: few for a
    failover, more where a busy machine must not be taken for one. ``way_to`` returns another
    port that leads to that of the primary: it is all that the others, and clients, know.
    """

    def __init__(
        self,
        servers: ServersForTests,
        name: str,
        *,
        down_after: float = 20.0,
        password: str = "",
        sentinel_password: str = "",
        tls: bool = False,
        replicas: int = 1,
        options: Sequence[str] = (),
        way_to: Callable[[int], int] = lambda port: port,
    ) -> None:
        super().__init__(servers, name)
        self.password = password
        self.sentinel_password = sentinel_password
        options = list(options)
        if password:
            options += ["--requirepass", password, "--masterauth", password]
        self.authority = ""
        if tls:
            made = self.certificates()
            options += [*tls_options(made), "--tls-replication", "yes"]
            self.authority = str(made.authority)
        first = self.add(RedisServer, *options)
        port = way_to(first.tls_port if tls else first.port)
        behind = ["--replicaof", HOST, str(port)]
        self.servers = [first, *(self.add(RedisServer, *options, *behind) for _ in range(replicas))]
        lines = [
            f"sentinel monitor {SERVICE} {HOST} {port} 2",
            f"sentinel down-after-milliseconds {SERVICE} {int(down_after * 1000)}",
            f"sentinel failover-timeout {SERVICE} {int(down_after * 4000)}",
        ]
        if password:
            lines.append(f"sentinel auth-pass {SERVICE} {password}")
        if sentinel_password:
            # they log in to each other with it
            lines.append(f"requirepass {sentinel_password}")
        if tls:
            lines += [
                f"tls-cert-file {made.certificate}",
                f"tls-key-file {made.key}",
                f"tls-ca-cert-file {made.authority}",
                "tls-auth-clients no",
                "tls-replication yes",
            ]
        self.sentinels = [self.add(SentinelServer, *lines) for _ in range(3)]
        self._wait_until_complete(replicas)

    def url(self, login: str = "", **options: str | int) -> str:
        """Return what a client is told; ``login`` comes with its ``@``."""
        if self.sentinel_password:
            options["sentinel_password"] = self.sentinel_password
        if self.authority:
            options["ssl_ca_certs"] = self.authority
        scheme = "rediss" if self.authority else "redis"
        port = "tls_port" if self.authority else "port"
        hosts = ",".join(f"{HOST}:{getattr(sentinel, port)}" for sentinel in self.sentinels)
        query = "&".join(f"{name}={value}" for name, value in options.items())
        return f"{scheme}+sentinel://{login}{hosts}/{SERVICE}?{query}"

    def primary(self) -> RedisServer:
        """Return the server that most sentinels name."""
        named = [self._named_by(sentinel) for sentinel in self.sentinels if sentinel.is_running]
        port = max(set(named), key=named.count)
        return next(server for server in self.servers if port in (server.port, server.tls_port))

    def admin(self, server: Server) -> Redis:
        """Return a client of one of the servers."""
        return Redis(port=server.port, password=self.password or None, decode_responses=True)

    def _named_by(self, sentinel: Server) -> int:
        with self._asking(sentinel) as client:
            _, port = client.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
        return int(port)

    def _asking(self, sentinel: Server) -> Redis:
        password = self.sentinel_password or None
        return Redis(port=sentinel.port, password=password, decode_responses=True)

    def _wait_until_complete(self, replicas: int) -> None:
        """Wait until all know of each other: before that they agree on nothing."""
        until = time.monotonic() + 60
        while not all(self._knows_all(sentinel, replicas) for sentinel in self.sentinels):
            assert time.monotonic() < until, f"{self.name}: the sentinels did not find each other"
            time.sleep(0.05)

    def _knows_all(self, sentinel: Server, replicas: int) -> bool:
        with self._asking(sentinel) as client:
            try:
                told = client.execute_command("SENTINEL", "MASTER", SERVICE)
            except RedisError:
                return False
        known = told if isinstance(told, dict) else dict(zip(told[::2], told[1::2], strict=True))
        others = int(known["num-other-sentinels"]), int(known["num-slaves"])
        return others == (2, replicas) and "down" not in str(known["flags"])
