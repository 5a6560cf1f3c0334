"""A password, and TLS whose certificate is looked at: what a server on a network is reached by."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import pytest

from anarchon.backends.postgres import PostgresBackend, PostgresStore
from anarchon.errors import StoreRefused
from tests.servers import ServersForTests, ask_or_skip
from tests.servers.certificates import Certificates, make_certificates
from tests.servers.postgres import PostgresServer
from tests.unit.postgres.conftest import NAMESPACE

pytestmark = pytest.mark.xdist_group("postgres-15")

PASSWORD = "s3cr€t/@:?"


@dataclass(frozen=True)
class Guarded:
    """A server that lets in who knows the password, over TLS only."""

    server: PostgresServer
    certificates: Certificates

    def store(
        self, *, password: str = PASSWORD, host: str = "127.0.0.1", **tls: str
    ) -> PostgresStore:
        url = self.server.url(user="service", password=password).replace("127.0.0.1", host)
        query = "&".join(f"{option}={value}" for option, value in tls.items())
        return PostgresBackend(f"{url}?{query}").connect(NAMESPACE)

    def verified(self, **options: str) -> PostgresStore:
        authority = {"sslmode": "verify-full", "sslrootcert": str(self.certificates.authority)}
        return self.store(**{**authority, **options})


@pytest.fixture(scope="module")
def guarded(
    servers: ServersForTests, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("certificates")
    made = ask_or_skip("openssl", lambda: make_certificates(folder))
    # the name of the machine is not in it
    # the one of a wheel was built without TLS
    server = servers.start("postgres-15", "-c", "listen_addresses=127.0.0.1,127.0.0.2")
    assert isinstance(server, PostgresServer)
    data = server.folder / "data"
    for name, source in (("server.crt", made.certificate), ("server.key", made.key)):
        shutil.copyfile(source, data / name)
        (data / name).chmod(0o600)
        if server.user:
            os.chown(data / name, server.user, -1)
    with open(data / "postgresql.conf", "a") as settings:
        settings.write("ssl = on\n")
    server.let_in("host all postgres 127.0.0.1/32 trust", "hostssl all all all scram-sha-256")
    asyncio.run(let_the_service_in(server))
    yield Guarded(server, made)
    server.stop()


async def let_the_service_in(server: PostgresServer) -> None:
    root = await asyncpg.connect(server.url())
    await root.execute(f"create role service login password '{PASSWORD}'")
    await root.execute("grant create on database postgres to service")
    await root.close()


async def refused(store: PostgresStore) -> str:
    with pytest.raises(StoreRefused) as raised:
        await store.open()
    await store.close()
    assert PASSWORD not in str(raised.value)
    return raised.value.problem


async def test_a_store_is_reached_by_password_over_verified_tls(guarded):
    store = guarded.verified()

    assert (await store.active(())).answers == ()

    root = await asyncpg.connect(guarded.server.url())
    secured = await root.fetch(
        "select ssl from pg_stat_ssl join pg_stat_activity using (pid)"
        " where application_name = 'anarchon'"
    )
    await root.close()
    await store.close()
    assert [row["ssl"] for row in secured] == [True]
    assert "s3cr" not in store.label


async def test_a_wrong_password_is_refused(guarded):
    problem = await refused(guarded.verified(password="guessed"))

    assert problem == 'password authentication failed for user "service"'


async def test_a_certificate_of_somebody_else_is_refused(guarded, tmp_path: Path):
    other = make_certificates(tmp_path)

    problem = await refused(guarded.verified(sslrootcert=str(other.authority)))

    assert "certificate verify failed" in problem


async def test_a_certificate_of_another_host_is_refused(guarded):
    problem = await refused(guarded.verified(host="127.0.0.2"))

    assert "certificate verify failed: IP address mismatch" in problem


async def test_a_connection_without_tls_is_refused_where_it_is_asked_for(guarded):
    problem = await refused(guarded.store(sslmode="disable"))

    assert "no encryption" in problem
