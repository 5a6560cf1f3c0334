"""The driver's client, made to be let go at once and to keep to TLS.

nats-py reaches into the future where it can: it connects again by itself, and sends then what it
had kept; its ``close`` sends what is waiting first. Here a request that was given up must not
arrive later, so each of these is switched off or gone round. That takes some of its inner parts,
which are named in this file and nowhere else.
"""

from __future__ import annotations

import asyncio
import socket
import struct

from nats.aio.client import Client as DriverClient
from nats.errors import Error as DriverError

#: Closing such a socket throws away what the kernel has not sent yet.
_RESET = struct.pack("ii", 1, 0)


class PlainText(DriverError):
    """The server does not offer TLS, and the URL asks for it."""

    def __str__(self) -> str:
        return "the server does not ask for TLS, and tls:// does not go without it"


class Client(DriverClient):
    """A client of one connection."""

    def _connect_command(self) -> bytes:
        # with the login in it; the driver would send it in plain text where a server, or
        # somebody on the way, does not ask for TLS
        server = self._current_server
        if server is not None and server.uri.scheme == "tls":
            writer = self._writer()
            if writer is None or writer.get_extra_info("ssl_object") is None:
                raise PlainText
        return super()._connect_command()

    @property
    def cluster(self) -> str | None:
        """The name of the cluster that the server belongs to, if it does."""
        return self._server_info.get("cluster")

    def reset(self) -> None:
        """End the connection with nothing sent any more that was not sent yet."""
        self._pending.clear()
        self._pending_data_size = 0
        writer = self._writer()
        if writer is None:
            return
        sock = writer.get_extra_info("socket")
        if sock is not None and sock.fileno() != -1:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        writer.transport.abort()
        # closing would wait for its end, which after a failed handshake nobody hears of
        self._transport = None

    def _writer(self) -> asyncio.StreamWriter | None:
        return getattr(self._transport, "_io_writer", None)
