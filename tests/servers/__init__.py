"""Real servers for tests: fetched without installing, started privately, stopped for certain.

`Servers.get("redis-8.0")` gives a running server that is shared within the process;
`Servers.start("redis-8.0")` one that belongs to the caller, to be killed, paused or restarted.
Nothing here ever uses a server that the machine has installed or running.
"""

from tests.servers.catalog import CATALOG, Recipe, names_of
from tests.servers.errors import StartFailed, Unavailable
from tests.servers.fetch import fetch
from tests.servers.pool import Servers, required_names
from tests.servers.process import Server
from tests.servers.required import ServersForTests, ask_or_skip

__all__ = [
    "CATALOG",
    "Recipe",
    "Server",
    "Servers",
    "ServersForTests",
    "StartFailed",
    "Unavailable",
    "ask_or_skip",
    "fetch",
    "names_of",
    "required_names",
]
