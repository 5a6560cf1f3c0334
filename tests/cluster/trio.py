"""A Redis primary, its replicas, and the proxies on the ways to them."""

from __future__ import annotations

import time
from collections import Counter
from typing import Self

from redis import Redis

from tests.cluster.network import Proxy
from tests.servers import Server, ServersForTests


class Trio:
    """A primary, the replica that will take its place, and a third server.

    Replication goes through a proxy, so that it can be cut while both servers go on; clients
    come on two ways, each of which can be led to the new primary.

    The third replicates the replica, for what is won there once it was promoted has to be
    acknowledged too. With ``third_replicates`` it replicates the primary until then.
    """

    def __init__(
        self, servers: ServersForTests, name: str, *, third_replicates: bool = False
    ) -> None:
        self.primary = servers.start(name)
        self.replication = Proxy(("127.0.0.1", self.primary.port)).start()
        self.replica = servers.start(name, "--replicaof", "127.0.0.1", str(self.replication.port))
        source = self.primary if third_replicates else self.replica
        self.third = servers.start(name, "--replicaof", "127.0.0.1", str(source.port))
        self.ways = [Proxy(("127.0.0.1", self.primary.port)).start() for _ in range(2)]
        for server, replicas in Counter([self.primary, source]).items():
            _wait_for_replicas(server, replicas)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for proxy in (*self.ways, self.replication):
            proxy.cut()
            proxy.stop()
        for server in (self.third, self.replica, self.primary):
            # a stop would wait for replicas that are cut off
            server.kill()

    def url(self, wait_replicas: int, way: int = 0) -> str:
        return f"redis://127.0.0.1:{self.ways[way].port}/0?wait_replicas={wait_replicas}"

    def fail(self) -> None:
        """Kill the primary, and see to it that what is still on the way stays there."""
        self.primary.kill()
        self.replication.black_hole()

    def promote(self, *ways: int) -> None:
        """Make the replica the primary, and lead there who comes on these ways."""
        with Redis(port=self.replica.port) as admin:
            admin.replicaof("NO", "ONE")
        with Redis(port=self.third.port) as admin:
            admin.replicaof("127.0.0.1", str(self.replica.port))
        for way in ways:
            self.lead(way)

    def lead(self, way: int) -> None:
        """Lead to the new primary who comes on this way."""
        self.ways[way].switch(("127.0.0.1", self.replica.port))


def _wait_for_replicas(server: Server, count: int) -> None:
    end = time.monotonic() + 20
    with Redis(port=server.port) as admin:
        while str(admin.info("replication")).count("'online'") < count:
            assert time.monotonic() < end, "the replicas did not come"
            time.sleep(0.02)
