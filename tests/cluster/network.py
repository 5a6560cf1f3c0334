"""A way to a server that a test can cut, silence, slow down, or lead to another server."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Self

Address = tuple[str, int]

#: Closing such a socket sends RST instead of FIN.
_RESET = struct.pack("ii", 1, 0)
_PIECE = 65536


class Proxy:
    """Passes TCP connections on to ``target``, and has its faults on the way.

    ``listener`` is a bound socket to listen on, else a free port of the loopback address.
    Works on a thread of its own; every method may be called from any other.
    """

    def __init__(self, target: Address, *, listener: socket.socket | None = None) -> None:
        self._target = target
        if listener is None:
            listener = socket.socket()
            listener.bind(("127.0.0.1", 0))
        self._listener = listener
        self._listener.setblocking(False)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._work, name="proxy", daemon=True)
        self._server: asyncio.Server | None = None
        self._ends: set[asyncio.StreamWriter] = set()
        self._is_open = asyncio.Event()
        self._is_open.set()
        self._refuses = False
        self._delay = 0.0

    @property
    def host(self) -> str:
        return str(self._listener.getsockname()[0])

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def start(self) -> Self:
        """Listen; connections are passed on until told otherwise."""
        self._thread.start()
        self._do(self._listen())
        return self

    def stop(self) -> None:
        """End every connection and listen no more."""
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def heal(self) -> None:
        """Pass on what comes, and what a black hole kept, at full speed."""
        self._set(delay=0.0, silent=False, refuses=False)

    def cut(self) -> None:
        """Reset every connection there is, and every new one."""
        self._set(delay=0.0, silent=False, refuses=True)

    def black_hole(self) -> None:
        """Accept connections and bytes, and pass nothing on; nobody hears of an error."""
        self._set(delay=0.0, silent=True, refuses=False)

    def slow(self, seconds: float) -> None:
        """Keep each piece for so long, in either direction, before it is passed on."""
        self._set(delay=seconds, silent=False, refuses=False)

    def reset(self) -> None:
        """Reset every connection there is; new ones are treated as before."""
        self._call(self._reset_all)

    def switch(self, target: Address) -> None:
        """Lead to another server from now on; the connections to the old one are reset."""

        def lead() -> None:
            self._target = target
            self._reset_all()

        self._call(lead)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # below: on the thread of the loop

    def _work(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    def _call(self, work: Callable[[], None]) -> None:
        async def call() -> None:
            work()

        self._do(call())

    def _set(self, *, delay: float, silent: bool, refuses: bool) -> None:
        def change() -> None:
            self._delay = delay
            self._refuses = refuses
            if refuses:
                self._reset_all()
            if silent:
                self._is_open.clear()
            else:
                self._is_open.set()

        self._call(change)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, sock=self._listener)

    async def _close(self) -> None:
        assert self._server is not None, "never started"
        self._server.close()
        self._reset_all()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        # a transport closes its socket one turn after it was told to
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    def _reset_all(self) -> None:
        for end in self._ends:
            _reset(end)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._lead(reader, writer)
        except asyncio.CancelledError:
            # `stop` did it; asyncio's own callback would be surprised by it and say so
            return

    async def _lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refuses:
            _reset(writer)
            return
        self._ends.add(writer)
        try:
            await self._is_open.wait()
            far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:
            _reset(writer)
            self._ends.discard(writer)
            return
        self._ends.add(far_writer)
        try:
            await asyncio.gather(self._pump(reader, far_writer), self._pump(far_reader, writer))
        finally:
            for end in (writer, far_writer):
                self._ends.discard(end)
                end.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                piece = await reader.read(_PIECE)
                # an end of the connection is news too: nobody hears of it through a black hole
                await self._is_open.wait()
                if self._delay:
                    await asyncio.sleep(self._delay)
                    await self._is_open.wait()
                if not piece:
                    break
                writer.write(piece)
                await writer.drain()
            writer.close()
        except OSError:
            _reset(writer)


def _reset(writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    if sock is not None and sock.fileno() != -1:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()
