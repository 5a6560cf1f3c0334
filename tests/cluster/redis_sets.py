"""Sets of Redis servers of which a primary fails, and that promote another by themselves."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Self

from redis import Redis
from redis.crc import key_slot
from redis.exceptions import RedisError

from anarchon.backends.redis.keys import Keys
from tests.cluster.failover import LONG_JOBS, NAMESPACE, SHORT_JOBS
from tests.servers import Server, ServersForTests
from tests.servers.cluster import PRIMARIES, ClusterServer, ClusterSet
from tests.servers.sentinel import SentinelSet

#: After so many seconds of silence a server is down: long enough for a busy machine.
_DOWN_AFTER = 2.0


class FailingSet(ABC):
    """Has the methods of a ``Trio``, as far as a failover needs them.

    The primary that was killed is started again once another was promoted, as whoever runs it
    would do, and follows that one. So does one that only stands still: ``freezes``.
    """

    def __init__(
        self, made: SentinelSet | ClusterSet, primary: Server, replica: Server, *, freezes: bool
    ) -> None:
        self._whole = made
        self._freezes = freezes
        self.primary = primary
        self.replica = replica

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._whole.close()

    def url(self, wait_replicas: int, way: int = 0) -> str:
        """Return what clients are told, all of them the same."""
        return self._whole.url(wait_replicas=wait_replicas)

    @property
    def replication(self) -> Self:
        return self

    def black_hole(self) -> None:
        """Let nothing more come to the replica: it stands still, and its connection is gone."""
        self.replica.pause()
        with Redis(port=self.primary.port) as admin:
            admin.execute_command("CLIENT", "KILL", "TYPE", "replica")

    def fail(self) -> None:
        if self._freezes:
            self.primary.pause()
        else:
            self.primary.kill()
        self.replica.resume()

    def promote(self, *ways: int) -> None:
        """Wait until it has happened, and let the other one go on."""
        _wait(self._has_promoted)
        self.primary.resume()
        self.primary.start()

    def lead(self, way: int) -> None:  # noqa: B027  # no set has more to do
        """Leave it to the clients, who find their way."""

    @abstractmethod
    def _has_promoted(self) -> bool:
        """Tell whether all who decide have heard of it."""


class FailingSentinels(FailingSet):
    """Three sentinels that promote the replica."""

    def __init__(self, servers: ServersForTests, name: str, *, freezes: bool = False) -> None:
        self._made = SentinelSet(servers, name, down_after=_DOWN_AFTER)
        super().__init__(self._made, *self._made.servers, freezes=freezes)

    def _has_promoted(self) -> bool:
        return self._made.primary() is self.replica


class FailingCluster(FailingSet):
    """Three primaries with a replica each, of which the primary of most jobs fails."""

    def __init__(self, servers: ServersForTests, name: str, *, freezes: bool = False) -> None:
        self._made = ClusterSet(servers, name, replicas=1, node_timeout=_DOWN_AFTER)
        homes, keys = self._made.homes(), Keys(NAMESPACE)
        jobs = [*SHORT_JOBS, *LONG_JOBS]
        held = Counter(homes[key_slot(keys.of_job(job)[0].encode())] for job in jobs)
        primary = held.most_common(1)[0][0]
        replica = self._made.nodes[self._made.nodes.index(primary) + PRIMARIES]
        super().__init__(self._made, primary, replica, freezes=freezes)

    def _has_promoted(self) -> bool:
        return all(self._has_heard(node) for node in self._made.nodes if node is not self.primary)

    def _has_heard(self, node: ClusterServer) -> bool:
        with self._made.admin(node) as admin:
            told = admin.execute_command("CLUSTER", "SLOTS")
        ports = {int(primary[1]) for _, _, primary, *_ in told}
        return self.replica.port in ports and self.primary.port not in ports


def _wait(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while True:
        with suppress(RedisError):
            if condition():
                return
        assert time.monotonic() < end, "not so in time"
        time.sleep(0.05)


SETS: dict[str, type[FailingSentinels | FailingCluster]] = {
    "sentinels": FailingSentinels,
    "cluster": FailingCluster,
}
