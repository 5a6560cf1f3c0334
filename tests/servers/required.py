"""What cannot be had skips the test that needs it, or fails it where it is required."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from tests.servers.errors import Unavailable
from tests.servers.fetch import fetch
from tests.servers.pool import Servers, is_required
from tests.servers.process import Server

T = TypeVar("T")


def ask_or_skip(name: str, ask: Callable[[], T]) -> T:
    """Return what ``ask`` gives; where that raises `Unavailable`, skip or fail the test.

    A ``name`` that the catalog does not know is required where all is.
    """
    try:
        return ask()
    except Unavailable as error:
        reason = f"{name}: {error}"
    if is_required(name):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


class ServersForTests:
    """`Servers` as tests ask for them."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers

    def get(self, name: str) -> Server:
        """Return the shared server of that name, running."""
        return ask_or_skip(name, lambda: self._servers.get(name))

    def start(self, name: str, *options: str) -> Server:
        """Start a server for this caller alone, which may kill, pause and restart it."""
        return ask_or_skip(name, lambda: self._servers.start(name, options))

    def fetched(self, name: str) -> Path:
        """Return the folder of what has that name and is no server."""
        return ask_or_skip(name, lambda: fetch(name))
