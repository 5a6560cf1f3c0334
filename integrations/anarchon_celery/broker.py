"""The way to the broker: a connection of our own, on which no call lasts longer than seconds."""

from __future__ import annotations

import functools
import os
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from celery import Celery
from kombu import Connection, Producer

from anarchon_celery.address import address_of

#: How long one step may take: reaching the broker, sending, hearing its confirmation.
PATIENCE = 5.0

_AMQP = "py-amqp"


@dataclass(slots=True)
class _Piece:
    """Messages that go together; ``producer`` is theirs, if the transport can do that."""

    stack: ExitStack
    is_lent: bool = False
    producer: Producer | None = None
    is_spoilt: bool = False

    @property
    def is_held_back(self) -> bool:
        return self.producer is not None


class Broker:
    """Lends a producer; made when first needed, and made again after any error.

    The engine tries again what failed, so nothing here does. For one thread at a time.
    Raises ``ConfigurationError`` where the app's broker cannot be spoken to at all.
    """

    def __init__(self, app: Celery) -> None:
        #: Where the messages go; no user and no password.
        self.address = address_of(app)
        self._app = app
        self._open: list[tuple[Connection, Producer]] = []
        self._piece: _Piece | None = None
        # Nobody tells an action that the scheduler has stopped.
        weakref.finalize(self, _close_all, self._open, os.getpid())

    @contextmanager
    def producer(self) -> Iterator[Producer]:
        """Lend a producer on a live connection; raises what keeps it from being reached."""
        piece = self._piece
        if piece is not None and not piece.is_lent:
            piece.is_lent = True
            piece.producer = piece.stack.enter_context(self._gathering(piece))
        if piece is None or piece.producer is None:
            with self._alive() as producer:
                yield producer
            return
        try:
            yield piece.producer
        except BaseException:
            piece.is_spoilt = True
            raise

    @contextmanager
    def together(self) -> Iterator[_Piece]:
        """Send what is published inside in one flight, at the end, where the transport can.

        That is Redis with kombu 5.7 or later; elsewhere each message goes when it is published.
        """
        with ExitStack() as stack:
            self._piece = piece = _Piece(stack)
            try:
                yield piece
            finally:
                self._piece = None

    @contextmanager
    def _gathering(self, piece: _Piece) -> Iterator[Producer | None]:
        with self._alive() as producer:
            if not getattr(producer, "supports_batch_publish", False):
                yield None
                return
            batch: Any = producer.batch  # type: ignore[attr-defined]  # new in kombu 5.7
            with batch():
                yield producer
            if piece.is_spoilt:
                _abandon(self._open.pop()[0])

    @contextmanager
    def _alive(self) -> Iterator[Producer]:
        if not self._open:
            self._open.append(self._connect())
        connection, producer = self._open[0]
        try:
            if not _is_alive(connection):
                _abandon(self._open.pop()[0])
                self._open.append(self._connect())
                connection, producer = self._open[0]
            yield producer
        except BaseException:
            # Whatever it was, what may be half sent is not built upon.
            if self._open:
                _abandon(self._open.pop()[0])
            raise

    def _connect(self) -> tuple[Connection, Producer]:
        patience = min(self._app.conf.broker_connection_timeout or PATIENCE, PATIENCE)
        connection: Any = self._app.connection_for_write(connect_timeout=patience)
        driver = connection.transport.driver_name
        # its own copy, made for this connection
        connection.transport_options.update(_bounds(driver, connection.transport_options))
        try:
            # each server of a list once
            connection.ensure_connection(
                max_retries=max(0, len(connection.alt) - 1),
                interval_start=0,
                interval_step=0,
                interval_max=0,
                timeout=PATIENCE,
            )
            if driver == _AMQP:
                _bound_every_wait(connection.connection)
            # A channel, not the connection: from that a producer would reconnect for ever.
            channel = connection.channel()
        except BaseException:
            _abandon(connection)
            raise
        producer: Any = self._app.amqp.Producer(channel, auto_declare=False)
        producer.maybe_declare = functools.partial(_declare, connection, producer.maybe_declare)
        return connection, producer


def _declare(connection: Any, declare: Callable[..., object], entity: Any, **retry: Any) -> object:
    """Declare an entity unless this connection has; kombu copies each before it looks."""
    if entity.can_cache_declaration and hash(entity) in connection.declared_entities:
        return False
    return declare(entity, **retry)


def _bounds(driver: str, options: dict[str, Any]) -> dict[str, Any]:
    if driver == _AMQP:
        return {"confirm_publish": True, "write_timeout": options.get("write_timeout", PATIENCE)}
    if driver == "redis":
        names = ("socket_timeout", "socket_connect_timeout")
        return {name: min(options.get(name) or PATIENCE, PATIENCE) for name in names}
    return {}


def _bound_every_wait(connection: Any) -> None:
    """Let no wait for an AMQP broker last for ever, as those without a timeout of their own do."""
    connection.drain_events = functools.partial(_drain, connection.drain_events)


def _drain(drain: Callable[[float | None], object], timeout: float | None = None) -> object:
    return drain(PATIENCE if timeout is None else timeout)


def _is_alive(connection: Any) -> bool:
    if not connection.connected:
        return False
    if connection.transport.driver_name != _AMQP:
        return True
    try:
        # A broker that went away while nothing was sent has left its goodbye on the line.
        connection.drain_events(timeout=0)
    except TimeoutError:
        return True
    except (*connection.connection_errors, *connection.channel_errors):
        return False
    return True


def _close_all(opened: list[tuple[Connection, Producer]], pid: int) -> None:
    # a word of goodbye from a process that was forked off would end the connection of ours
    while opened and os.getpid() == pid:
        connection, _ = opened.pop()
        try:
            connection.release()
        except Exception:
            _abandon(connection)


def _abandon(connection: Connection) -> None:
    """Let go of a connection without a word to the broker, which may not listen.

    Where kombu knows no such way, closing says nothing either. Its ``collect`` would do that
    under another default timeout of all sockets of the process, and two threads that do so at
    once may leave it there for good.
    """
    try:
        if hasattr(connection.transport, "_collect"):
            connection.collect()
        else:
            connection.release()
    except Exception:
        pass
