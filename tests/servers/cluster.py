"""Starts a Redis or Valkey Cluster: three primaries, each with a replica if wanted."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from redis import Redis
from redis.crc import key_slot
from redis.exceptions import RedisError

from tests.servers.process import HOST
from tests.servers.redis import RedisServer
from tests.servers.redis_set import RedisSet, tls_options
from tests.servers.required import ServersForTests

SLOTS = 16384
PRIMARIES = 3


class ClusterServer(RedisServer):
    """A node, with a second port for the other nodes."""

    @property
    def bus_port(self) -> int:
        """Where the nodes talk to each other."""
        return self.port + 33_500

    @property
    def named_port(self) -> int:
        """What the nodes tell clients."""
        return int(self._option("--cluster-announce-port") or self.port)

    def _command(self) -> list[str]:
        bus = ["--cluster-enabled", "yes", "--cluster-port", str(self.bus_port)]
        return [*super()._command(), *bus]


class ClusterSet(RedisSet):
    """Three primaries that share the slots, and their replicas.

    ``node_timeout`` are the seconds after which a node that does not answer is down: few for a
    failover, more where a busy machine must not be taken for one. Without ``full_coverage`` the
    others go on when one is down. ``ways`` are ports for the nodes to name in place of their
    own, and lead nowhere before somebody leads them to these.
    """

    def __init__(
        self,
        servers: ServersForTests,
        name: str,
        *,
        node_timeout: float = 20.0,
        replicas: int = 0,
        password: str = "",
        tls: bool = False,
        full_coverage: bool = True,
        options: Sequence[str] = (),
        ways: Sequence[int] = (),
    ) -> None:
        super().__init__(servers, name)
        self.password = password
        options = [*options, "--cluster-node-timeout", str(int(node_timeout * 1000))]
        options += ["--cluster-allow-replica-migration", "no"]
        options += ["--cluster-require-full-coverage", "yes" if full_coverage else "no"]
        if password:
            options += ["--requirepass", password, "--masterauth", password]
        self.authority = ""
        if tls:
            made = self.certificates()
            options += [*tls_options(made), "--tls-cluster", "yes", "--tls-replication", "yes"]
            self.authority = str(made.authority)
        count = PRIMARIES * (1 + replicas)
        named = [["--cluster-announce-port", str(way)] for way in ways] or [
            [] for _ in range(count)
        ]
        self.nodes = [self.add(ClusterServer, *options, *way) for way in named]
        self._join()

    def url(self, login: str = "", **options: str | int) -> str:
        """Return what a client is told; ``login`` comes with its ``@``."""
        if self.authority:
            options["ssl_ca_certs"] = self.authority
        scheme = "rediss" if self.authority else "redis"
        port = "tls_port" if self.authority else "port"
        hosts = ",".join(f"{HOST}:{getattr(node, port)}" for node in self.nodes)
        query = "&".join(f"{name}={value}" for name, value in options.items())
        return f"{scheme}+cluster://{login}{hosts}?{query}"

    def admin(self, node: RedisServer) -> Redis:
        """Return a client of one of the nodes."""
        return Redis(port=node.port, password=self.password or None, decode_responses=True)

    def homes(self) -> dict[int, ClusterServer]:
        """Return the primary of each hash slot, by the word of a node that runs."""
        by_port = {node.named_port: node for node in self.nodes}
        with self.admin(next(node for node in self.nodes if node.is_running)) as admin:
            return {
                slot: by_port[int(primary[1])]
                for first, last, primary, *_ in admin.execute_command("CLUSTER", "SLOTS")
                for slot in range(int(first), int(last) + 1)
            }

    def primary_of(self, key: str) -> ClusterServer:
        """Return the node that holds a key now."""
        return self.homes()[key_slot(key.encode())]

    def _join(self) -> None:
        admins = [self.admin(node) for node in self.nodes]
        try:
            share = SLOTS // PRIMARIES
            for at, admin in enumerate(admins):
                admin.execute_command("CLUSTER", "SET-CONFIG-EPOCH", at + 1)
                if at < PRIMARIES:
                    last = SLOTS - 1 if at == PRIMARIES - 1 else (at + 1) * share - 1
                    admin.execute_command("CLUSTER", "ADDSLOTSRANGE", at * share, last)
            for node in self.nodes[1:]:
                # the plain port is what a node is met by, also where all of them speak TLS
                port = node.tls_port if self.authority else node.port
                admins[0].execute_command("CLUSTER", "MEET", HOST, port, node.bus_port)
            self._wait("met each other", lambda: all(self._knows_all(a) for a in admins))
            for at, admin in enumerate(admins[PRIMARIES:]):
                primary = admins[at % PRIMARIES].execute_command("CLUSTER", "MYID")
                admin.execute_command("CLUSTER", "REPLICATE", primary)
            self._wait("are complete", lambda: all(self._is_complete(a) for a in admins))
        finally:
            for admin in admins:
                admin.close()

    def _knows_all(self, admin: Redis) -> bool:
        return self._info(admin)["cluster_known_nodes"] == str(len(self.nodes))

    def _is_complete(self, admin: Redis) -> bool:
        role = admin.info("replication")
        linked = role["role"] == "master" or role["master_link_status"] == "up"
        replicas = len(self.nodes) // PRIMARIES - 1
        followed = role["role"] != "master" or str(role).count("'online'") == replicas
        return self._info(admin)["cluster_state"] == "ok" and linked and followed

    def _info(self, admin: Redis) -> dict[str, str]:
        told: str = admin.execute_command("CLUSTER", "INFO")
        return dict(line.split(":") for line in told.split())

    def _wait(self, what: str, condition: Callable[[], bool]) -> None:
        until = time.monotonic() + 60
        while True:
            try:
                if condition():
                    return
            except RedisError:
                pass
            assert time.monotonic() < until, f"{self.name}: not all nodes {what}"
            time.sleep(0.05)
