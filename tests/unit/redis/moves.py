"""Moves a hash slot of a cluster step by step, so that a test may look in between."""

from __future__ import annotations

from redis import Redis
from redis.crc import key_slot

from tests.servers.cluster import ClusterServer, ClusterSet


class Move:
    """The hash slot of a key, on its way from one node to another."""

    def __init__(self, cluster: ClusterSet, admins: dict[ClusterServer, Redis], key: str) -> None:
        self._slot = key_slot(key.encode())
        self.source = cluster.primary_of(key)
        at = cluster.nodes.index(self.source)
        self.target = cluster.nodes[(at + 1) % len(cluster.nodes)]
        self._admins = admins
        self._from, self._to = admins[self.source], admins[self.target]

    def begin(self) -> None:
        self._set(self._to, "IMPORTING", self._id(self._from))
        self._set(self._from, "MIGRATING", self._id(self._to))

    def carry(self, count: int = 1000) -> None:
        keys = self._from.execute_command("CLUSTER", "GETKEYSINSLOT", self._slot, count)
        if keys:
            to = ("127.0.0.1", self.target.port)
            self._from.execute_command("MIGRATE", *to, "", 0, 5000, "KEYS", *keys)

    def end(self) -> None:
        target = self._id(self._to)
        for admin in (self._to, self._from, *self._admins.values()):
            self._set(admin, "NODE", target)

    def back(self) -> None:
        """Leave the slot where it was, with whatever is in it."""
        self.source, self.target = self.target, self.source
        self._from, self._to = self._to, self._from
        self.begin()
        self.carry()
        self.end()

    def _set(self, admin: Redis, *what: str) -> None:
        admin.execute_command("CLUSTER", "SETSLOT", self._slot, *what)

    def _id(self, admin: Redis) -> str:
        return str(admin.execute_command("CLUSTER", "MYID"))
