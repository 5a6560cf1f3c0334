"""RabbitMQ, seen from behind: by its own Erlang. The adapter gets the rights that its docs name."""

from __future__ import annotations

import atexit
import re
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from urllib.parse import quote

import anarchon.backends.rabbitmq as package
from anarchon.backends.rabbitmq import RabbitMQBackend, RabbitMQStore
from anarchon.backends.rabbitmq.line import THREAD_NAME
from anarchon.clock import SystemClock
from anarchon_contract.claims.harness import NAMESPACE, Feature
from tests.servers import Servers, ServersForTests
from tests.servers.rabbitmq import RabbitServer

USER, PASSWORD = "service", "s3cr€t/@"
_ESTABLISHED = "01"


@cache
def _servers() -> ServersForTests:
    servers = Servers()
    atexit.register(servers.close)
    return ServersForTests(servers)


def shared_server(name: str) -> RabbitServer:
    """Return the running server of that name, for all the tests of this process."""
    server = _servers().get(name)
    assert isinstance(server, RabbitServer)
    return server


@cache
def khepri_server(name: str) -> RabbitServer:
    """Return a server of that name that keeps in Khepri which queues there are, not in Mnesia."""
    server = _servers().start(name)
    assert isinstance(server, RabbitServer)
    server.evaluate("rabbit_feature_flags:enable(khepri_db)")
    assert server.evaluate("rabbit_khepri:is_enabled()") == "true"
    return server


@asynccontextmanager
async def open_harness(name: str) -> AsyncIterator[RabbitMQHarness]:
    server_name, _, kind = name.partition(" ")
    server = khepri_server(server_name) if kind == "khepri" else shared_server(server_name)
    add_service(server)
    yield RabbitMQHarness(server, "quorum" if kind == "quorum" else "classic")


def add_service(server: RabbitServer) -> None:
    """Make a user with the rights that the package's documentation names, and no more."""
    assert package.__doc__
    rights = re.findall(r"set_permissions -p VHOST service '(.*)' '(.*)' '(.*)'", package.__doc__)
    (patterns,) = rights
    user = f"<<{USER!r}>>".replace("'", '"')
    given = ", ".join(f'<<"{pattern}">>'.replace("\\", "\\\\") for pattern in patterns)
    password = ", ".join(map(str, PASSWORD.encode()))
    server.evaluate(
        "begin U = {user}, case rabbit_auth_backend_internal:exists(U) of true -> ok; false ->"
        " ok = rabbit_auth_backend_internal:add_user(U, <<{password}>>, <<{test}>>),"
        " ok = rabbit_auth_backend_internal:set_permissions(U, <<{host}>>, {given}, <<{test}>>)"
        " end end".format(user=user, password=password, test='"test"', host='"/"', given=given)
    )


def url_of(server: RabbitServer, port: int | None = None, queue_type: str = "classic") -> str:
    """Return the URL of a store for the user with the least rights."""
    place = f"{USER}:{quote(PASSWORD, safe='')}@127.0.0.1:{port or server.port}"
    return f"amqp://{place}/?queue_type={queue_type}"


class RabbitMQHarness:
    features = frozenset({Feature.ANY_ORDER, Feature.PROCESSES})

    def __init__(self, server: RabbitServer, queue_type: str) -> None:
        self._server = server
        self.url = url_of(server, queue_type=queue_type)
        self.backend = RabbitMQBackend(self.url)

    def connect(self, namespace: str = NAMESPACE) -> RabbitMQStore:
        return self.backend.connect(namespace)

    async def wipe(self) -> None:
        await self.empty()

    async def empty(self) -> None:
        self._server.evaluate(
            '[rabbit_amqqueue:delete(Q, false, false, <<"test">>) || Q <- rabbit_amqqueue:list()]'
        )

    async def stamp_newer_version(self) -> None:
        raise NotImplementedError

    async def leftovers(self) -> Sequence[str]:
        # what was given up ends by itself, a moment later
        left: list[str] = []
        for _ in range(500):
            left = [*_threads(), *_connections(self._server.port)]
            if not left:
                break
            await SystemClock().sleep(0.01)
        return left


def _threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == THREAD_NAME]


def _connections(port: int) -> list[str]:
    """Return the connections of this process's network to a port of this machine."""
    lines = Path("/proc/self/net/tcp").read_text().splitlines()[1:]
    fields = (line.split() for line in lines)
    return [
        f"connection to {port}"
        for _, _, far, state, *_ in fields
        if state == _ESTABLISHED and int(far.rpartition(":")[2], 16) == port
    ]
