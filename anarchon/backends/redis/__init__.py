"""Leases on Redis 7 or later and on Valkey: one script call a job, everything of a job together.

Nothing in here may decide what the rules decide: the scripts do, inside the server and by its
clock, and this package only carries questions there and answers back.

The least rights that do, as ``ACL SETUSER`` takes them::

    ~anarchon:* +evalsha +script|load +time +get +set
    +hget +hset +hdel +hexists +hgetall +zadd +zrange +zrem +zscore
    +lindex +linsert +lrange +lrem +rpush

besides ``+info`` to be warned of a server that may delete our keys, ``+select`` for another
database than 0, and ``+ping`` where the URL asks for health checks.
"""

from __future__ import annotations

import logging

from anarchon.backends.redis.connection import Link
from anarchon.backends.redis.keys import Keys
from anarchon.backends.redis.settings import Settings, read_url
from anarchon.backends.redis.store import RedisStore

__all__ = ["RedisBackend", "RedisStore"]

_log = logging.getLogger("anarchon.backends.redis")


class RedisBackend:
    """A Redis or Valkey server.

    Takes ``redis://``, ``rediss://``, ``unix://``, ``valkey://`` and ``valkeys://`` URLs as
    redis-py does, with its options in the query.
    """

    def __init__(self, url: str) -> None:
        self._settings: Settings = read_url(url)
        self._warned: set[str] = set()

    @classmethod
    def from_url(cls, url: str) -> RedisBackend:
        return cls(url)

    def __repr__(self) -> str:
        return f"<RedisBackend: {self.label}>"

    @property
    def label(self) -> str:
        return self._settings.label

    def connect(self, namespace: str) -> RedisStore:
        keys = Keys(namespace)
        return RedisStore(Link(self._settings, keys, self._warn_once), keys)

    def _warn_once(self, problem: str) -> None:
        if problem not in self._warned:
            self._warned.add(problem)
            _log.warning("store=%s %s", self.label, problem)
