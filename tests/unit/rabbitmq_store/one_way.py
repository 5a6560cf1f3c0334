"""A way to a server by which questions arrive, and answers may not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class OneWay:
    """Passes on what it is given; answers only while ``answers`` is true."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._ends: set[asyncio.StreamWriter] = set()
        self.answers = True
        self.port = 0

    def reset(self) -> None:
        """End every connection there is, at once."""
        for end in self._ends:
            end.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        self._ends |= {writer, far_writer}
        try:
            await asyncio.gather(
                self._pump(reader, far_writer, is_answer=False),
                self._pump(far_reader, writer, is_answer=True),
            )
        finally:
            self._ends -= {writer, far_writer}

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_answer: bool
    ) -> None:
        try:
            while piece := await reader.read(65536):
                if self.answers or not is_answer:
                    writer.write(piece)
            writer.close()
        except OSError:
            writer.transport.abort()


@asynccontextmanager
async def one_way(target: int) -> AsyncIterator[OneWay]:
    """Lead to a port of this machine by another one, which is set."""
    way = OneWay(target)
    server = await asyncio.start_server(way.serve, "127.0.0.1", 0)
    async with server:
        way.port = server.sockets[0].getsockname()[1]
        yield way
        way.reset()
