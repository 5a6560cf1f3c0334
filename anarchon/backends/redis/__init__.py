"""Leases on Redis 7 or later and on Valkey: one script call a job, everything of a job together.

Nothing in here may decide what the rules decide: the scripts do, inside the server and by its
clock, and this package only carries questions there and answers back.

The least rights that do, as ``ACL SETUSER`` takes them::

    ~anarchon:* +evalsha +script|load +time +get +set
    +hget +hset +hdel +hexists +hgetall +zadd +zrange +zrem +zscore
    +lindex +linsert +lrange +lrem +rpush

and ``+info`` to be warned of a server that may delete our keys or lacks replicas,
``+select`` for another database than 0, ``+ping`` where the URL asks for health checks, and
``+wait`` where it asks for replicas. The least rights on each sentinel::

    +sentinel|get-master-addr-by-name

and the least rights on each node of a cluster, besides::

    +cluster|slots +asking
"""

from __future__ import annotations

from dataclasses import replace

from anarchon.backends.redis.addresses import read_store_url
from anarchon.backends.redis.backend import Linking
from anarchon.backends.redis.claim_backend import RedisClaimBackend
from anarchon.backends.redis.claim_modes import LEASE
from anarchon.backends.redis.claims import RedisClaimStore
from anarchon.backends.redis.keys import Keys
from anarchon.backends.redis.settings import checked_count
from anarchon.backends.redis.store import RedisStore
from anarchon.errors import ConfigurationError

__all__ = ["RedisBackend", "RedisClaimBackend", "RedisClaimStore", "RedisStore", "open_url"]


def open_url(url: str) -> RedisBackend | RedisClaimBackend:
    """Return the backend for the mode that the URL names: leases where it names none."""
    leases = read_store_url(url).mode is LEASE
    return RedisBackend(url) if leases else RedisClaimBackend(url)


class RedisBackend(Linking):
    """A Redis or Valkey server, one behind sentinels, or a cluster.

    Takes ``redis://``, ``rediss://``, ``unix://``, ``valkey://`` and ``valkeys://`` URLs as
    redis-py does, with its options in the query, and ``redis+sentinel://HOST,HOST/SERVICE/DB``
    and ``redis+cluster://HOST,HOST``. ``wait_replicas``, also in the query: what was granted
    counts only once so many replicas have it.
    """

    def __init__(self, url: str, *, wait_replicas: int | None = None) -> None:
        settings = read_store_url(url)
        if wait_replicas is not None:
            settings = replace(settings, wait_replicas=checked_count(wait_replicas))
        if settings.mode is not LEASE:
            raise ConfigurationError(
                f"mode={settings.mode.name} keeps no leases",
                option="store",
                fix="leave the mode out, or hand the URL over as it is",
            )
        super().__init__(settings)

    def connect(self, namespace: str) -> RedisStore:
        keys = Keys(namespace)
        return RedisStore(self._link(keys), keys)
