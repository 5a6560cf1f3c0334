"""The test servers themselves: other tests lean on them dying, freezing and coming back."""

import os
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from kombu import Connection

from tests.servers import CATALOG, ServersForTests, names_of, required_names
from tests.servers.binaries import Binaries
from tests.servers.fetch import fetch
from tests.servers.folders import TemporaryFolder, is_reachable_by_others, link_or_copy
from tests.servers.postgres import PostgresServer
from tests.servers.process import Server, exchange

ROOT = Path(__file__).resolve().parents[3]

_OWNER = """
from tests.servers import Servers
from tests.servers.process import family_of
servers = Servers()
redis, postgres = servers.start("redis-7.0"), servers.start("postgres-15")
family = [redis.pid, *family_of(postgres.pid)]
postgres.pause()
print(redis.folder.parent, *family, flush=True)
input()
"""


@pytest.mark.parametrize("name", names_of("redis", "valkey"))
def test_data_outlive_a_kill(servers: ServersForTests, name: str) -> None:
    server = servers.start(name)
    exchange(server.port, b"SET key kept\r\n")

    server.kill()
    server.start()

    assert b"kept" in exchange(server.port, b"GET key\r\n")


def test_rabbitmq_serves_and_keeps_its_port_over_a_kill(servers: ServersForTests) -> None:
    server = servers.start("rabbitmq-3.10")
    port = server.port

    server.kill()
    server.start()

    with Connection(server.url(), connect_timeout=5) as broker:
        broker.connect()
    assert server.port == port


@pytest.mark.parametrize("name", names_of("postgres"))
def test_a_restarted_postgres_keeps_its_address(servers: ServersForTests, name: str) -> None:
    server = servers.start(name)
    before = server.url()

    server.kill()
    server.start()
    server.restart()

    assert server.url() == before
    assert _wants_no_tls(server)


def test_a_paused_server_answers_only_after_it_goes_on(servers: ServersForTests) -> None:
    server = servers.start("redis-7.0")

    server.pause()

    with pytest.raises(TimeoutError):
        exchange(server.port, b"PING\r\n")
    server.resume()
    assert exchange(server.port, b"PING\r\n") == b"+PONG\r\n"


def test_a_paused_server_can_be_stopped(servers: ServersForTests) -> None:
    server = servers.start("postgres-15")

    server.pause()
    server.stop()

    assert not server.is_running


def test_a_shared_server_is_running_again_whatever_a_test_did_to_it(
    servers: ServersForTests,
) -> None:
    server = servers.get("redis-7.0")
    server.kill()

    assert servers.get("redis-7.0") is server
    assert exchange(server.port, b"PING\r\n") == b"+PONG\r\n"


def test_each_started_server_is_another_one(servers: ServersForTests) -> None:
    first, second = servers.start("redis-7.0"), servers.start("redis-7.0")

    assert first.port != second.port
    assert exchange(first.port, b"PING\r\n") == exchange(second.port, b"PING\r\n")


def test_no_server_outlives_a_killed_owner(servers: ServersForTests) -> None:
    for name in ("redis-7.0", "postgres-15"):
        servers.get(name)
    owner = subprocess.Popen(
        [sys.executable, "-c", _OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
    )
    assert owner.stdin is not None
    assert owner.stdout is not None
    with owner, owner.stdin, owner.stdout:
        folder, *family = owner.stdout.readline().split()
        handles = [os.pidfd_open(int(pid)) for pid in family]

        owner.send_signal(signal.SIGKILL)

        assert len(family) > 4
        assert all(_ends(handle) for handle in handles)
    shutil.rmtree(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts Postgres as another user")
def test_postgres_starts_from_a_checkout_nobody_else_may_enter(
    servers: ServersForTests, tmp_path: Path
) -> None:
    servers.get("postgres-18")
    recipe = CATALOG["postgres-18"]
    hidden = tmp_path / "private" / recipe.name
    hidden.parent.mkdir(mode=0o700)
    link_or_copy(fetch(recipe.name), hidden)
    home = TemporaryFolder()
    data = home.path / "data"
    data.mkdir()
    server = PostgresServer(recipe, Binaries(hidden, recipe.source.programs), data)

    try:
        assert not is_reachable_by_others(hidden)
        server.start()
        assert _wants_no_tls(server)
    finally:
        server.stop()
        home.remove()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", set()),
        ("all", {name for name, recipe in CATALOG.items() if not recipe.may_vanish}),
        ("redis", {"redis-7.0", "redis-8.0"}),
        ("postgres-18, valkey-9", {"postgres-18", "valkey-9"}),
    ],
)
def test_the_variable_names_servers_kinds_or_all(
    monkeypatch: pytest.MonkeyPatch, text: str, names: set[str]
) -> None:
    monkeypatch.setenv("ANARCHON_REQUIRE_BACKENDS", text)

    assert required_names() == names


def test_a_misspelt_requirement_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANARCHON_REQUIRE_BACKENDS", "redis-7.0,postgress")

    with pytest.raises(ValueError, match="postgress"):
        required_names()


def _wants_no_tls(server: Server) -> bool:
    """Tell whether a Postgres answers: it says N to a client that asks for TLS."""
    return exchange(server.port, bytes([0, 0, 0, 8, 4, 210, 22, 47])) == b"N"


def _ends(handle: int) -> bool:
    """Wait until the process of a pidfd has ended."""
    with os.fdopen(handle):
        return bool(select.select([handle], [], [], 10)[0])
