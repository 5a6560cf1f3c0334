"""The way to a Redis broker: its client once more, with time limits, and never sent twice.

A command whose answer did not come may have been carried out. The client would send it again,
and the queue would hold the message twice; here the engine decides what becomes of it.
"""

from __future__ import annotations

import copy
import os
import weakref
from collections.abc import Iterable, Mapping
from typing import Any

from dramatiq import Actor, Message
from redis.backoff import NoBackoff
from redis.retry import Retry

from anarchon import SystemClock
from anarchon_dramatiq.way import PATIENCE, sent_by, twin_of


class RedisWay:
    """Sends by a client of our own, made of the broker's."""

    def __init__(self, broker: Any) -> None:
        self.address = _address_of(broker)
        self._twin = twin_of(broker)
        self._twin.client = client = _bounded(broker.client)
        self._twin.scripts = {
            name: client.register_script(script.script) for name, script in broker.scripts.items()
        }
        # nobody tells an action that the scheduler has stopped
        weakref.finalize(self, _close, client.connection_pool, os.getpid())

    def send(self, actor: Actor[..., Any], **message: Any) -> Message[Any]:
        return sent_by(self._twin, actor, message)


def way_to(broker: Any) -> RedisWay:
    """Return the way to a Redis broker; connects nowhere yet."""
    return RedisWay(broker)


def unattended(broker: Any, queues: Iterable[str]) -> Mapping[str, str]:
    """Return all of the queues, with why, if nobody was heard of for longer than workers rest.

    Whoever sends is heard of as well: that somebody was says nothing.
    """
    since = SystemClock().wall().timestamp() * 1000 - broker.heartbeat_timeout
    client = _bounded(broker.client)
    try:
        heard = client.zcount(f"{broker.namespace}:__heartbeats__", since, "+inf")
    finally:
        client.connection_pool.disconnect()
    seconds = broker.heartbeat_timeout / 1000
    return {} if heard else dict.fromkeys(queues, f"no worker was heard of for {seconds:.0f} s")


def _bounded(client: Any) -> Any:
    pool = copy.copy(client.connection_pool)
    kept = {
        name: value
        for name, value in pool.connection_kwargs.items()
        # those speak to the pool that this is a copy of
        if not name.startswith("maint_notifications")
    }
    limits = {
        name: min(kept.get(name) or PATIENCE, PATIENCE)
        for name in ("socket_timeout", "socket_connect_timeout")
    }
    pool.connection_kwargs = {
        **kept,
        **limits,
        "retry": Retry(NoBackoff(), 0),
        "retry_on_error": [],
    }
    pool.reset()
    own = copy.copy(client)
    own.connection_pool = pool
    return own


def _close(pool: Any, pid: int) -> None:
    # one that was inherited by a fork is closed by its parent
    if os.getpid() == pid:
        pool.disconnect()


def _address_of(broker: Any) -> str:
    pool = broker.client.connection_pool
    said = pool.connection_kwargs
    # a pool of Sentinel's asks for the address when it connects
    service = getattr(pool, "service_name", None)
    place = service or said.get("path") or f"{said.get('host')}:{said.get('port')}"
    return f"redis://{place}/{said.get('db') or 0} {broker.namespace}"
