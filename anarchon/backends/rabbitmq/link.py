"""One connection to RabbitMQ, which blocks: for use on a thread of its own.

Everything is a declaration of one queue. What is refused closes the channel, not the connection,
and kombu's channel opens itself anew under its number; a connection that failed in any other way
is never used again.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from kombu.transport.pyamqp import Connection

from anarchon.backends.rabbitmq.names import NOBODY, Mark, probe_name
from anarchon.backends.rabbitmq.refusals import (
    ACCESS_REFUSED,
    IMPOSSIBLE,
    NOT_FOUND,
    PRECONDITION_FAILED,
    Absent,
    Made,
    QueueRefused,
    Taken,
    is_passing,
    lacking_rights,
    not_connected,
    read_refusal,
    told_by,
)
from anarchon.backends.rabbitmq.settings import Settings
from anarchon.clock import Clock
from anarchon.errors import OutcomeUnknown, StoreError, StoreUnavailable

#: In seconds, for each step of connecting; the driver would wait for as long as the kernel tries.
_CONNECT = 5.0
#: For a reply, where nobody gave up before.
_REPLY = 30.0
#: A server that was not heard of for two of these is gone. It also keeps the connection alive
#: in whatever lies between and forgets silent ones.
HEARTBEAT = 30

#: The first that is told of which type its queues are to be.
_OLDEST = (3, 8)
#: How often a queue that is just being made is asked for.
_TRIES = 3


class _Driver(Connection):
    """The driver's connection; ``wire`` has its socket, also before that is connected."""

    server_properties: dict[str, Any]
    wire: Any = None
    is_reached = False

    def Transport(self, *args: Any, **options: Any) -> Any:  # noqa: N802  # the driver's name
        self.wire = super().Transport(*args, **options)
        self.wire.connect()
        self.is_reached = True
        return self.wire


class Link:
    """Is to be connected before each question. Only ``interrupt`` is for another thread."""

    def __init__(self, settings: Settings, namespace: str, clock: Clock) -> None:
        self._settings = settings
        self._namespace = namespace
        self._clock = clock
        self._connection: _Driver | None = None
        self._channel: Any = None
        self._is_interrupted = False
        self.server = ""
        #: Since when the server is waited for, by the clock.
        self.waiting_since: float | None = None

    @property
    def is_connected(self) -> bool:
        return self._channel is not None

    def connect(self) -> None:
        """Make the connection, unless there is one that lives."""
        if self._connection is not None:
            self.keep_alive()
        if self._channel is None:
            with self._waiting():
                self._connect()

    def keep_alive(self) -> None:
        """Read what came unasked, and be heard of in time; a connection that ended is let go."""
        connection = self._connection
        if connection is None:
            return
        try:
            _read_what_came(connection)
            connection.heartbeat_tick()
        except Exception:
            self.drop()

    def ping(self) -> None:
        """Ask for something that every virtual host has, and anybody may look at."""
        with self._asking() as channel:
            channel.exchange_declare("amq.direct", "direct", passive=True)

    def check_rights(self) -> None:
        """Look for a queue that is never there. Raises ``StoreError`` where that is refused."""
        try:
            self.look(probe_name(self._namespace), 60_000)
        except QueueRefused as error:
            if getattr(error.__cause__, "reply_code", None) == ACCESS_REFUSED:
                raise StoreError(error.store, error.problem) from error.__cause__
            raise

    def make(self, queue: str, expires: int, mark: Mark) -> Made | Taken:
        """Declare a queue, which makes it if it is not there."""
        said = self._declare(queue, expires, {"x-dead-letter-exchange": str(mark)})
        assert not isinstance(said, Absent), "said to what cannot be made only"
        return said

    def look(self, queue: str, expires: int) -> Absent | Taken:
        """Declare a queue that cannot be made, so that only what is there is compared."""
        odd = {"x-dead-letter-exchange": NOBODY, IMPOSSIBLE: -1}
        said = self._declare(queue, expires, odd)
        # where it is there in spite of all, it is not ours
        return Taken() if isinstance(said, Made) else said

    def drop(self) -> None:
        """Let the connection go, and wait for nothing."""
        connection, self._connection, self._channel = self._connection, None, None
        if connection is not None:
            with suppress(Exception):
                connection.collect()

    def close(self) -> None:
        """End the connection as the protocol has it, if it answers."""
        if self._connection is not None and not self._is_interrupted:
            with suppress(Exception):
                self._connection.close()
        self.drop()

    def interrupt(self) -> None:
        """Let whatever waits for the server fail now, and from now on."""
        self._is_interrupted = True
        wire = getattr(self._connection, "wire", None)
        sock = getattr(wire, "sock", None)
        if sock is not None:
            with suppress(OSError):
                # not the method of a TLS socket, which is for the thread that reads from it
                socket.socket.shutdown(sock, socket.SHUT_RDWR)

    def _declare(self, queue: str, expires: int, odd: dict[str, Any]) -> Made | Absent | Taken:
        arguments = {"x-queue-type": self._settings.queue_type, "x-expires": expires, **odd}
        for _ in range(_TRIES):
            with self._asking() as channel:
                try:
                    channel.queue_declare(
                        queue, durable=True, auto_delete=False, arguments=arguments
                    )
                except Connection.channel_errors as refusal:
                    said = self._refused(refusal)
                    if said is None:
                        continue
                    return said
                return Made()
        problem = f"the node that has the queue {queue} does not answer for it"
        raise QueueRefused(self._settings.label, problem)

    def _refused(self, refusal: Any) -> Absent | Taken | None:
        """Return what a refusal says, ``None`` to ask once more; or raise what it means."""
        text = told_by(refusal)
        if refusal.reply_code == PRECONDITION_FAILED:
            said = read_refusal(text)
            if said is not None:
                return said
        if refusal.reply_code == NOT_FOUND and is_passing(text):
            return None
        if refusal.reply_code == ACCESS_REFUSED:
            text = lacking_rights(self._settings, text)
        # nothing was made; an administrator may mend it
        raise QueueRefused(self._settings.label, text) from refusal

    @contextmanager
    def _asking(self) -> Iterator[Any]:
        """Lend the channel, and let the connection go if anything but a refusal happens.

        It does not connect: a clock was read right before, and connecting may take a while.
        """
        if self._channel is None:
            raise StoreUnavailable(self._settings.label, "not connected")
        try:
            with self._waiting():
                yield self._channel
        except StoreError:
            raise
        except Exception as error:
            # the driver also raises what it stumbles over when its connection goes
            self.drop()
            raise OutcomeUnknown(self._settings.label, told_by(error)) from error

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        self.waiting_since = self._clock.monotonic()
        try:
            yield
        finally:
            self.waiting_since = None

    def _connect(self) -> None:
        settings = self._settings
        if self._is_interrupted:
            raise StoreUnavailable(settings.label, "the connection was given up")
        self._connection = connection = _Driver(
            host=f"{settings.host}:{settings.port}",
            userid=settings.user,
            password=settings.password,
            login_method="PLAIN",
            virtual_host=settings.vhost,
            ssl=settings.tls or False,
            connect_timeout=_CONNECT,
            read_timeout=_REPLY,
            write_timeout=_REPLY,
            heartbeat=HEARTBEAT,
            client_properties={"connection_name": f"anarchon {self._namespace}"},
        )
        try:
            connection.connect()
            self._check_server(connection.server_properties)
            self._channel = connection.channel()
        except StoreError:
            self.drop()
            raise
        except Exception as error:
            self.drop()
            is_broker = bool(connection.server_properties)
            raise not_connected(
                settings, error, is_reached=connection.is_reached, is_broker=is_broker
            ) from error

    def _check_server(self, properties: dict[str, Any]) -> None:
        product, version = str(properties.get("product")), str(properties.get("version"))
        self.server = f"{product} {version}"
        if product != "RabbitMQ":
            problem = f"it is {self.server}, and only RabbitMQ is known to decide claims"
            raise StoreError(self._settings.label, problem)
        if version_of(version) < _OLDEST:
            oldest = ".".join(map(str, _OLDEST))
            problem = f"{self.server} is too old: {oldest} or later is needed"
            raise StoreError(self._settings.label, problem)


def _read_what_came(connection: Connection) -> None:
    try:
        while True:
            connection.drain_events(timeout=0)
    except TimeoutError as error:
        # with a number it is the system's, and the connection is lost
        if error.errno is not None:
            raise


def version_of(text: str) -> tuple[int, ...]:
    """Return the numbers of a version, as far as they are numbers."""
    numbers = []
    for part in text.split("."):
        if not part.isdecimal():
            break
        numbers.append(int(part))
    return tuple(numbers)
