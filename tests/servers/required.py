"""A server that cannot be had skips its test, or fails it where it is required."""

from collections.abc import Callable

import pytest

from tests.servers.errors import Unavailable
from tests.servers.pool import Servers, is_required
from tests.servers.process import Server


class ServersForTests:
    """`Servers` as tests ask for them."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers

    def get(self, name: str) -> Server:
        """Return the shared server of that name, running."""
        return self._or_skip(name, lambda: self._servers.get(name))

    def start(self, name: str, *options: str) -> Server:
        """Start a server for this caller alone, which may kill, pause and restart it."""
        return self._or_skip(name, lambda: self._servers.start(name, options))

    @staticmethod
    def _or_skip(name: str, ask: Callable[[], Server]) -> Server:
        try:
            return ask()
        except Unavailable as error:
            reason = f"{name}: {error}"
        if is_required(name):
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
