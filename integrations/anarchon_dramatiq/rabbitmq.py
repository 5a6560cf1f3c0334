"""The way to a RabbitMQ broker: a connection of our own, with confirmations and time limits.

Where the broker itself does not ask for confirmations, and tries six times, each message here
is confirmed and tried once: the engine tries again, and knows when it is too late. A connection
that was not used for a while is not trusted: its broker or a firewall may have dropped it.
"""

from __future__ import annotations

import copy
import os
import sys
import threading
import weakref
from collections.abc import Iterable, Mapping
from typing import Any

import pika
from dramatiq import Actor, Message
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.errors import ConnectionClosed
from pika.exceptions import AMQPConnectionError, AMQPError, ChannelClosedByBroker

from anarchon import SystemClock
from anarchon_dramatiq.way import PATIENCE, sent_by, twin_of

#: For how long a connection that is not used is kept, in seconds.
_IDLE = 20.0
#: Longer than that, so that no silence of ours is taken for our death.
_HEARTBEAT = 60
_NOT_FOUND = 404


class RabbitWay:
    """Sends by a twin of the broker that has its own connection."""

    def __init__(self, broker: Any) -> None:
        self.address = _address_of(broker)
        self._clock = SystemClock()
        self._used = float("-inf")
        self._twin = twin = twin_of(broker)
        twin.__class__ = _twin_class(type(broker))
        twin.confirm_delivery = True
        given = broker.parameters
        twin.parameters = list(map(_bounded, given)) if isinstance(given, list) else _bounded(given)
        twin.connections, twin.channels = set(), set()
        twin.state = threading.local()
        # nobody tells an action that the scheduler has stopped
        weakref.finalize(self, _close_all, twin.connections, os.getpid())

    def send(self, actor: Actor[..., Any], **message: Any) -> Message[Any]:
        twin, now = self._twin, self._clock.monotonic()
        if now - self._used > _IDLE or not _is_alive(twin):
            del twin.connection
        twin.state.has_failed = None
        sent = sent_by(twin, actor, message)
        self._used = self._clock.monotonic()
        return sent


def way_to(broker: Any) -> RabbitWay:
    """Return the way to a RabbitMQ broker; connects nowhere yet."""
    return RabbitWay(broker)


def unattended(broker: Any, queues: Iterable[str]) -> Mapping[str, str]:
    """Return the queues that nobody consumes from, with why; makes none."""
    given = broker.parameters if isinstance(broker.parameters, list) else [broker.parameters]
    connection = _BoundConnection(list(map(_bounded, given)))
    try:
        found = {queue: _looked_at(connection, queue) for queue in queues}
    finally:
        _close(connection)
    return {queue: problem for queue, problem in found.items() if problem is not None}


def _looked_at(connection: Any, queue: str) -> str | None:
    try:
        declared = connection.channel().queue_declare(queue, passive=True)
    except ChannelClosedByBroker as error:
        if error.reply_code != _NOT_FOUND:
            raise
        return f"there is no queue {queue!r}: no worker has run yet"
    return None if declared.method.consumer_count else f"no worker is at the queue {queue!r}"


class _BoundConnection(pika.BlockingConnection):  # type: ignore[misc]  # it has no types
    """A connection that gives up on whatever it waits for too long."""

    _impl: Any
    _closed_result: Any

    def _flush_output(self, *waiters: Any) -> None:
        if self.is_closed:
            super()._flush_output(*waiters)  # which says so
        timer = self._impl._adapter_call_later(PATIENCE, self._give_up)
        try:
            super()._flush_output(*waiters)
        finally:
            if not self._closed_result.ready:
                self._impl._adapter_remove_timeout(timer)

    def _give_up(self) -> None:
        problem = f"RabbitMQ did not answer within {PATIENCE:.0f} s"
        self._impl._terminate_stream(AMQPConnectionError(problem))


class _Twin(RabbitmqBroker):
    """Connects in its own way, and not again within one attempt to send."""

    @property
    def connection(self) -> Any:
        connection = getattr(self.state, "connection", None)
        if connection is None:
            if self.state.has_failed is not None:
                raise ConnectionClosed(self.state.has_failed)  # type: ignore[no-untyped-call]
            connection = _BoundConnection(self.parameters)
            self.state.connection = connection
            self.connections.add(connection)
        return connection

    @connection.deleter
    def connection(self) -> None:
        self.state.has_failed = sys.exc_info()[1] or AMQPConnectionError("closed")
        del self.channel
        connection = self.state.__dict__.pop("connection", None)
        if connection is not None:
            self.connections.discard(connection)
            _close(connection)


def _twin_class(cls: type[Any]) -> type[Any]:
    return type(cls.__name__, (_Twin, cls), {"__module__": cls.__module__})


def _bounded(given: Any) -> Any:
    own = copy.copy(given)
    own.socket_timeout = min(own.socket_timeout or PATIENCE, PATIENCE)
    own.stack_timeout = min(own.stack_timeout or PATIENCE, PATIENCE)
    own.blocked_connection_timeout = PATIENCE
    own.connection_attempts, own.retry_delay = 1, 0
    own.heartbeat = _HEARTBEAT
    return own


def _is_alive(twin: Any) -> bool:
    connection = getattr(twin.state, "connection", None)
    if connection is None:
        return True  # there will be a new one
    try:
        # a broker that went away has left its goodbye on the line
        connection.process_data_events(time_limit=0)
    except AMQPError:
        return False
    return bool(connection.is_open)


def _close_all(connections: set[Any], pid: int) -> None:
    # a word of goodbye from a process that was forked off would end the connection of ours
    while connections and os.getpid() == pid:
        _close(connections.pop())


def _close(connection: Any) -> None:
    try:
        if connection.is_open:
            connection.close()
    except Exception:
        pass


def _address_of(broker: Any) -> str:
    given = broker.parameters if isinstance(broker.parameters, list) else [broker.parameters]
    places = ",".join(sorted(f"{one.host}:{one.port}/{one.virtual_host}" for one in given))
    return f"amqp://{places}"
