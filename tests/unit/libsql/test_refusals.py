"""Servers that will not have us, or are none."""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path

import pytest

from anarchon.backends.libsql import LibSQLBackend
from anarchon.clock import SystemClock
from anarchon.errors import StoreError, StoreRefused, StoreUnavailable
from anarchon.store import Outcome
from anarchon_contract.leases.questions import Asker
from tests.cluster.network import Proxy
from tests.programs import ROOT
from tests.servers import ServersForTests
from tests.servers.process import HOST
from tests.servers.sqld import READ_ONLY_TOKEN, TOKEN, SqldServer
from tests.unit.libsql.conftest import NAMESPACE

pytestmark = pytest.mark.xdist_group("sqld")


async def refusal_of(url: str) -> StoreError:
    """Return what opening raises; looking at it raises the same."""
    store = LibSQLBackend(url).connect(NAMESPACE)
    with pytest.raises(StoreError) as raised:
        await store.open()
    await store.close()
    with pytest.raises(StoreError) as examined:
        await LibSQLBackend(url).examine(NAMESPACE)
    assert (type(examined.value), str(examined.value)) == (type(raised.value), str(raised.value))
    return raised.value


@pytest.fixture
def guarded(servers: ServersForTests):
    """A server that asks for a token."""
    server = servers.start("sqld")
    assert isinstance(server, SqldServer)
    server.require_tokens()
    yield server
    server.stop()


async def test_a_server_that_asks_for_a_token_is_told_it(guarded, connect):
    store = await connect(guarded.url(token=TOKEN))
    ask = Asker(store)

    assert (await ask.claim(await ask.time(), "a")).outcome is Outcome.WON
    assert TOKEN not in store.label


async def test_a_token_that_is_missing_wrong_or_may_not_write_is_told(guarded):
    head, payload, signature = TOKEN.split(".")
    wrong = f"{head}.{payload}.{signature[::-1]}"

    for token in (None, wrong, READ_ONLY_TOKEN):
        error = await refusal_of(guarded.url(token=token))

        assert isinstance(error, StoreRefused)
        assert "refused (HTTP 40" in error.problem
        assert "authToken=" in error.problem
        assert token is None or token not in str(error)


async def test_no_server_there_is_told(server):
    error = await refusal_of("http+libsql://127.0.0.1:1")

    assert type(error) is StoreUnavailable
    assert "Connect" in error.problem


async def test_no_such_host_is_told(server):
    error = await refusal_of("http+libsql://nowhere.invalid:8080")

    # where no name server can be asked, it may be known
    assert isinstance(error, StoreUnavailable)
    assert error.store == "http+libsql://nowhere.invalid:8080"


@asynccontextmanager
async def answering(answer: bytes, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A server that says one thing to all; gives its port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65536)
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, HOST, 0, ssl=tls)
    async with server:
        yield server.sockets[0].getsockname()[1]


def http(status: str, body: str = "", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", body]
    return "\r\n".join(lines).encode()


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (http("404 Not Found"), "no libSQL server answers there (HTTP 404)"),
        (http("200 OK", "<html>"), "what answers there is no libSQL server"),
        (http("200 OK", "[]"), "what answers there is no libSQL server"),
        (http("200 OK", '{"results":[{"type":"ok","response":{}}]}'), "is no libSQL server"),
        (b"-ERR unknown command\r\n", "does not speak HTTP"),
        (http("302 Found", "", "Location: https://elsewhere.invalid/"), "redirects elsewhere"),
        (http("400 Bad Request", '{"error":"no such database"}'), "no such database"),
    ],
)
async def test_what_is_no_libsql_server_is_told(answer, problem):
    async with answering(answer) as port:
        error = await refusal_of(f"http+libsql://{HOST}:{port}?authToken=s3cret")

    assert isinstance(error, StoreRefused)
    assert problem in error.problem
    assert "s3cret" not in str(error)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"", "ended the connection"),
        (http("502 Bad Gateway", "<html>"), "HTTP 502"),
        (http("503 Service Unavailable", '{"error":"starting"}'), "HTTP 503, starting"),
    ],
)
async def test_what_may_pass_is_told_as_away(answer, problem):
    async with answering(answer) as port:
        error = await refusal_of(f"http+libsql://{HOST}:{port}")

    assert isinstance(error, StoreUnavailable)
    assert not isinstance(error, StoreRefused)
    assert problem in error.problem


async def test_encrypted_where_nothing_is_encrypted_is_told(server):
    error = await refusal_of(f"libsql://{HOST}:{server.port}")

    assert isinstance(error, StoreRefused)
    assert "no TLS there" in error.problem
    assert "http+libsql://" in error.problem


async def test_a_certificate_that_nobody_trusts_is_told(tmp_path):
    certificate = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    async with answering(http("200 OK"), context) as port:
        error = await refusal_of(f"libsql://{HOST}:{port}")
        plain = await refusal_of(f"http+libsql://{HOST}:{port}")

    assert isinstance(error, StoreRefused)
    assert "its certificate cannot be trusted" in error.problem
    assert isinstance(plain, StoreUnavailable)


async def test_a_server_behind_tls_is_asked_once_its_certificate_is_trusted(server, tmp_path):
    certificate = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(HOST, server.port)
        await asyncio.wait(
            [asyncio.ensure_future(pass_on(*way)) for way in ((reader, back), (there, writer))]
        )

    terminator = await asyncio.start_server(serve, HOST, 0, ssl=context)
    async with terminator:
        port = terminator.sockets[0].getsockname()[1]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", OPENS, f"libsql://{HOST}:{port}"),
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "SSL_CERT_FILE": str(certificate)},
            cwd=ROOT,
        )
        said, _ = await process.communicate()

    assert said.decode().split() == ["won", f"libsql://{HOST}:{port}"]


OPENS = """
import asyncio, sys
from anarchon.backends import open_backend
from anarchon_contract.leases.questions import Asker

async def main(url):
    store = open_backend(url).connect("default")
    await store.open()
    ask = Asker(store)
    print((await ask.claim(await ask.time(), "a")).outcome, store.label)
    await store.close()

asyncio.run(main(sys.argv[1]))
"""


async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(65536):
        writer.write(piece)
    writer.close()


def self_signed(folder: Path) -> Path:
    made = folder / "both.pem"
    command = f"openssl req -x509 -newkey rsa:2048 -nodes -subj /CN={HOST} -days 2"
    command += f" -addext subjectAltName=IP:{HOST}"
    subprocess.run(
        [*command.split(), "-keyout", str(made), "-out", str(folder / "cert.pem")],
        check=True,
        capture_output=True,
    )
    made.write_bytes(made.read_bytes() + (folder / "cert.pem").read_bytes())
    return made


async def test_once_it_was_right_something_else_that_answers_is_away(connect, server):
    """A proxy that restarts must not make jobs fail for good."""
    with Proxy((HOST, server.port)) as way:
        store = await connect(f"http+libsql://{way.host}:{way.port}")
        async with answering(http("404 Not Found")) as port:
            way.switch((HOST, port))
            for _ in range(2):
                with pytest.raises(StoreUnavailable):
                    await store.active(())
            way.switch((HOST, server.port))
            assert (await store.active(())).answers == ()


# ---------------------------------------------------------------- replicas


@pytest.fixture
def pair(servers: ServersForTests):
    """A primary and its replica."""
    primary = servers.start("sqld")
    assert isinstance(primary, SqldServer)
    replica = servers.start("sqld", *primary.lead_replicas())
    yield primary, replica
    replica.stop()
    primary.stop()


async def test_a_replica_hands_everything_on_to_its_primary(pair, connect):
    """Its own copy may lag behind."""
    primary, replica = pair
    one, two = Asker(await connect(primary.url())), Asker(await connect(replica.url()))
    now = await one.time()
    for count in range(30):
        slot = now + count * timedelta(milliseconds=1)
        answers = []
        for asker, token in ((one, "a"), (two, "b"))[:: 1 if count % 2 else -1]:
            answers.append((await asker.claim(slot, token, job=f"job-{count}")).outcome)
        assert answers == [Outcome.WON, Outcome.RUNNING], count


async def test_a_replica_without_its_primary_keeps_nobody_longer_than_asked(pair, connect):
    primary, replica = pair
    ask = Asker(await connect(replica.url()))
    won = await ask.register()

    primary.kill()
    with pytest.raises((TimeoutError, StoreUnavailable)):
        async with SystemClock().timeout(0.3):
            await ask.time()
    primary.start()

    async with SystemClock().timeout(50):
        while True:
            with suppress(StoreUnavailable):
                assert (await ask.register()).first_seen == won.first_seen
                break
