"""What a server says of itself, and whether that will do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from anarchon.backends.redis.settings import Settings, Shape
from anarchon.errors import StoreError, StoreRefused

#: The first whose scripts can do what ours do.
_OLDEST = 7

_FIXES = {
    Shape.SERVER: "write redis://HOST:PORT",
    Shape.SENTINEL: "write redis+sentinel://HOST:PORT/SERVICE",
    Shape.CLUSTER: "write redis+cluster://HOST:PORT",
}


@dataclass(frozen=True, slots=True)
class Facts:
    """The answer to ``INFO``; nothing is known where we have not the right to ask."""

    told: Mapping[str, str]

    @classmethod
    def of(cls, reply: object) -> Facts:
        lines = reply.splitlines() if isinstance(reply, str) else ()
        return cls(dict(line.split(":", 1) for line in lines if ":" in line))

    @property
    def server(self) -> str:
        # Valkey tells there which Redis it is compatible with
        if "valkey_version" in self.told:
            return f"Valkey {self.told['valkey_version']}"
        version = self.told.get("redis_version")
        return "Redis" if version is None else f"Redis {version}"

    @property
    def is_replica(self) -> bool:
        return self.told.get("role") == "slave"


def check(settings: Settings, facts: Facts) -> None:
    """Raise where the server is not one that the URL may lead to."""
    told = facts.told
    version = told.get("redis_version")
    if version is not None and int(version.split(".")[0]) < _OLDEST:
        raise StoreError(
            settings.label, f"Redis {version} is too old: {_OLDEST} or later is needed"
        )
    check_mode(settings, facts)
    found = _shape_in(told)
    if found is not None and found is not _expected(settings):
        raise StoreError(settings.label, f"{_NAMES[found]}; {_FIXES[found]}")
    # a cluster's replica says who its primary is, and leads there
    if facts.is_replica and settings.shape is not Shape.CLUSTER:
        problem = "it is a read-only replica, and we need its primary"
        raise StoreRefused(settings.label, problem)


def check_mode(settings: Settings, facts: Facts) -> None:
    """Raise where the server does not have what this mode is made of."""
    version, needed = facts.told.get("redis_version"), settings.mode.since
    if version is None or needed is None:
        return
    # Valkey tells a version of Redis too, and has nothing of what came to Redis since
    if "valkey_version" in facts.told or _numbers(version) < needed:
        raise too_old_for_mode(settings, facts.server)


def too_old_for_mode(settings: Settings, server: str) -> StoreError:
    needed = ".".join(map(str, settings.mode.since or ()))
    return StoreError(
        settings.label,
        f"mode={settings.mode.name} needs Redis {needed} or later, and it is {server}: write"
        " mode=script or mode=stream-id, or leave it out for leases",
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())


def warn_of(settings: Settings, facts: Facts, warn: Callable[[str], None], place: str = "") -> None:
    """Warn of what may cost a promise; ``place`` names one server of several."""
    told, server = facts.told, f"the server {place}".rstrip()
    policy = told.get("maxmemory_policy", "noeviction")
    # the volatile policies delete what has an end
    deletes = policy.startswith(("allkeys-", "volatile-") if settings.mode.ends else "allkeys-")
    if told.get("maxmemory", "0") != "0" and deletes:
        warn(
            f"{server} may delete our keys when its memory is full (maxmemory-policy"
            f" {policy}): slots may then run twice; set it to noeviction"
        )
    wanted = settings.wait_replicas
    connected = int(told.get("connected_slaves", wanted))
    if connected < wanted:
        warn(
            f"wait_replicas={wanted}, but {server} has {connected} connected replicas:"
            f" nothing is granted until it has {wanted}"
        )


_NAMES = {
    Shape.SERVER: "it is a single server, and no node of a cluster",
    Shape.SENTINEL: "it is a Sentinel, which holds no data",
    Shape.CLUSTER: "it is a node of a cluster, which answers for some jobs only",
}


def _shape_in(told: Mapping[str, str]) -> Shape | None:
    if told.get("redis_mode") == "sentinel":
        return Shape.SENTINEL
    enabled = told.get("cluster_enabled")
    return {None: None, "0": Shape.SERVER}.get(enabled, Shape.CLUSTER)


def _expected(settings: Settings) -> Shape:
    # the sentinels lead to a single server
    return Shape.CLUSTER if settings.shape is Shape.CLUSTER else Shape.SERVER
