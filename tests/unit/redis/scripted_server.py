"""A server that says what a test wants it to say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

OK = b"+OK\r\n"
#: What a healthy server says on connecting and to a question for the time.
HEALTHY = {"SET": OK, "GET": b"$1\r\n1\r\n", "INFO": b"$0\r\n\r\n", "CLIENT": OK, "AUTH": OK}

#: Given a command, its answer; ``None`` ends the connection without one.
Say = Callable[[list[str]], bytes | None]


def healthy_but(**answers: bytes | None) -> Say:
    return lambda command: {**HEALTHY, **answers}[command[0]]


@asynccontextmanager
async def scripted_server(say: Say) -> AsyncIterator[int]:
    """Serve on a port of this machine, which is given."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (answer := say(await _command(reader))) is not None:
                writer.write(answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def _command(reader: asyncio.StreamReader) -> list[str]:
    count = int((await reader.readuntil(b"\r\n"))[1:])
    words = []
    for _ in range(count):
        length = int((await reader.readuntil(b"\r\n"))[1:])
        words.append((await reader.readexactly(length + 2))[:-2].decode())
    return words
