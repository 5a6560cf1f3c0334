"""A server that speaks just enough AMQP to say what it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from struct import pack, unpack

from amqp.serialization import dumps


def _frame(method: tuple[int, int], payload: bytes) -> bytes:
    body = pack(">HH", *method) + payload
    return pack(">BHI", 1, 0, len(body)) + body + b"\xce"


async def _read_frame(reader: asyncio.StreamReader) -> None:
    _, _, size = unpack(">BHI", await reader.readexactly(7))
    await reader.readexactly(size + 1)


@asynccontextmanager
async def scripted_broker(product: str, version: str) -> AsyncIterator[int]:
    """Take logins on a port of this machine, which is given."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        properties = {"product": product, "version": version}
        try:
            await reader.readexactly(8)
            writer.write(_frame((10, 10), dumps("ooFSS", (0, 9, properties, "PLAIN", "en_US"))))
            await _read_frame(reader)
            writer.write(_frame((10, 30), dumps("BlB", (10, 131072, 0))))
            await _read_frame(reader)
            await _read_frame(reader)
            writer.write(_frame((10, 41), dumps("s", ("",))))
            await reader.read()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
