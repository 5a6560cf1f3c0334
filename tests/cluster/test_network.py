"""The harness's own way to a server: does it do to connections what it says?"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.cluster.network import Address, Proxy


class Echo:
    """A server that answers each line with its name and the line."""

    def __init__(self, name: str) -> None:
        self._name = name.encode()
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> Address:
        return "127.0.0.1", self._listener.getsockname()[1]

    def close(self) -> None:
        if self._listener.fileno() == -1:
            return
        # a close alone leaves the thread accepting
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rwb") as lines:
            try:
                for line in lines:
                    lines.write(self._name + b" " + line)
                    lines.flush()
            except OSError:
                pass


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo("one")
    yield server
    server.close()


@pytest.fixture
def proxy(echo: Echo) -> Iterator[Proxy]:
    with Proxy(echo.address) as proxy:
        yield proxy


def connected(proxy: Proxy) -> socket.socket:
    return socket.create_connection((proxy.host, proxy.port), timeout=5)


def ask(connection: socket.socket, line: bytes, within: float = 5.0) -> bytes:
    connection.settimeout(within)
    connection.sendall(line)
    return connection.recv(100)


def is_refused(proxy: Proxy) -> bool:
    try:
        with connected(proxy) as connection:
            ask(connection, b"hello\n")
    except ConnectionError:
        return True
    return False


def test_a_healthy_way_passes_everything_on_and_an_end_too(proxy):
    with connected(proxy) as connection:
        assert ask(connection, b"hello\n") == b"one hello\n"
        connection.shutdown(socket.SHUT_WR)

        assert connection.recv(100) == b""


def test_a_cut_resets_the_connections_there_are_and_every_new_one_until_it_heals(proxy):
    with connected(proxy) as connection:
        ask(connection, b"hello\n")
        proxy.cut()

        with pytest.raises(ConnectionResetError):
            connection.recv(100)
    assert is_refused(proxy)
    proxy.heal()
    with connected(proxy) as connection:
        assert ask(connection, b"hello\n") == b"one hello\n"


def test_a_black_hole_tells_nobody_and_hands_over_late_what_it_kept(proxy):
    with connected(proxy) as connection:
        ask(connection, b"hello\n")
        proxy.black_hole()

        with pytest.raises(TimeoutError):
            ask(connection, b"kept\n", within=0.3)
        with connected(proxy) as other, pytest.raises(TimeoutError):
            ask(other, b"hello\n", within=0.3)
        proxy.heal()
        connection.settimeout(5)
        assert connection.recv(100) == b"one kept\n"


def test_a_slow_way_takes_its_time_in_either_direction(proxy):
    with connected(proxy) as connection:
        ask(connection, b"hello\n")
        proxy.slow(0.1)

        began = time.monotonic()
        assert ask(connection, b"hello\n") == b"one hello\n"
        assert time.monotonic() - began >= 0.2


def test_a_switch_leads_to_another_server_and_resets_what_led_to_the_old_one(proxy):
    other = Echo("two")
    with connected(proxy) as connection:
        ask(connection, b"hello\n")
        proxy.switch(other.address)

        with pytest.raises(ConnectionResetError):
            connection.recv(100)
    with connected(proxy) as connection:
        assert ask(connection, b"hello\n") == b"two hello\n"
    other.close()


def test_a_server_that_is_down_resets_whoever_connects(proxy, echo):
    echo.close()
    assert is_refused(proxy)
