"""What is said when the server, or whatever listens there, will not have us."""

from __future__ import annotations

import asyncio
import socket
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from anarchon.backends.rabbitmq import RabbitMQBackend, link
from anarchon.clock import SystemClock
from anarchon.errors import StoreError, StoreRefused, StoreUnavailable
from anarchon.store import Outcome
from anarchon_contract.claims.harness import NAMESPACE
from anarchon_contract.claims.questions import Asker
from tests.claims.harness_rabbitmq import url_of
from tests.servers import ServersForTests, Unavailable, ask_or_skip
from tests.servers.process import free_port
from tests.unit.rabbitmq_store.scripted_broker import scripted_broker

SECRET = "pa55word"


async def refused(url: str) -> StoreError:
    """Return what opening raises, which is what examining raises."""
    backend = RabbitMQBackend(url)
    store = backend.connect(NAMESPACE)
    with pytest.raises(StoreError) as raised:
        await store.open()
    await store.close()
    with pytest.raises(type(raised.value)) as examined:
        await backend.examine(NAMESPACE)
    assert str(examined.value) == str(raised.value)
    assert SECRET not in str(raised.value)
    assert raised.value.store == backend.label
    return raised.value


async def test_an_examined_server_is_named(harness, server):
    standing = await harness.backend.examine(NAMESPACE)

    assert standing.server.startswith(f"RabbitMQ {server.name.removeprefix('rabbitmq-')}")
    assert standing.is_prepared
    assert standing.doubts == ()
    assert server.evaluate("length(rabbit_amqqueue:list())") == "0"


async def test_a_wrong_password(server):
    error = await refused(f"amqp://service:{SECRET}@127.0.0.1:{server.port}")

    assert type(error) is StoreRefused
    assert "user 'service'" in error.problem


async def test_no_such_virtual_host(server):
    error = await refused(url_of(server).replace("/?", "/nowhere?"))

    assert type(error) is StoreRefused
    assert "'nowhere'" in error.problem


@pytest.mark.parametrize("missing", [0, 1, 2], ids=["configure", "write", "read"])
async def test_a_missing_right_is_named_with_how_to_give_it(server, missing):
    rights = [r"^anarchon\\."] * 3
    rights[missing] = ""
    user = '<<"lacking">>'
    given = ", ".join(f'<<"{pattern}">>' for pattern in rights)
    server.evaluate(
        f"begin rabbit_auth_backend_internal:exists({user}) orelse"
        f' (ok = rabbit_auth_backend_internal:add_user({user}, <<"{SECRET}">>, <<"test">>)),'
        f" rabbit_auth_backend_internal:set_permissions("
        f'{user}, <<"/">>, {given}, <<"test">>) end'
    )

    error = await refused(f"amqp://lacking:{SECRET}@127.0.0.1:{server.port}")

    assert not isinstance(error, StoreUnavailable), "it is nothing to wait for"
    assert "rabbitmqctl set_permissions -p / lacking '^anarchon\\.'" in error.problem


async def test_a_right_that_was_taken_away_may_be_given_back(ask, server, due):
    """Of a store that is open: nothing happened, and it is worth asking again."""
    give = (
        'rabbit_auth_backend_internal:set_permissions(<<"service">>, <<"/">>,'
        ' <<"{0}">>, <<"{0}">>, <<"{0}">>, <<"test">>)'
    )
    server.evaluate(give.format("^nothing$"))
    try:
        # the node keeps what it found for a connection a while, and a new one asks anew
        await ask.store.close()
        with pytest.raises(StoreUnavailable) as raised:
            await ask.claim(due)
        assert "set_permissions" in raised.value.problem
    finally:
        server.evaluate(give.format(r"^anarchon\\."))

    await ask.store.close()
    assert (await ask.claim(due)).outcome is Outcome.WON


async def test_nothing_listens():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        error = await refused(f"amqp://127.0.0.1:{unused.getsockname()[1]}")

    assert type(error) is StoreUnavailable
    assert "refused" in error.problem


@pytest.mark.parametrize(
    "says", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"AMQP\x00\x01\x00\x00", None], ids=repr
)
async def test_something_else_listens(says, monkeypatch):
    """Nothing at all, another protocol, another version of this one; or it keeps silent."""
    monkeypatch.setattr(link, "_CONNECT", 0.5)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(8)
        if says is None:
            await reader.read()
        else:
            writer.write(says)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        error = await refused(f"amqp://user:{SECRET}@127.0.0.1:{port}")

    assert type(error) is StoreUnavailable, "it may be a server that is just going or coming"
    assert "nothing there answers as RabbitMQ does without TLS" in error.problem


async def test_no_such_host():
    error = await refused("amqp://no-such-host.invalid")

    assert type(error) is StoreRefused or "Temporary failure" in error.problem
    assert "its host cannot be found" in error.problem


@pytest.mark.parametrize(
    ("product", "version", "told"),
    [("LavinMQ", "2.4.0", "LavinMQ"), ("RabbitMQ", "3.7.28", "too old")],
)
async def test_a_broker_that_cannot_decide_claims_is_refused(product, version, told):
    async with scripted_broker(product, version) as port:
        error = await refused(f"amqp://127.0.0.1:{port}")

    assert not isinstance(error, StoreUnavailable)
    assert told in error.problem


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate of this machine's name, signed by itself, and its key."""
    pem, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = [
        *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
        *("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"),
        *("-keyout", str(key), "-out", str(pem)),
    ]

    def make() -> tuple[Path, Path]:
        try:
            subprocess.run(command, check=True, capture_output=True)
        except FileNotFoundError:
            raise Unavailable("this machine has no openssl") from None
        return pem, key

    return ask_or_skip("openssl", make)


@pytest.fixture
async def trusted(
    servers: ServersForTests, certificate: tuple[Path, Path]
) -> AsyncIterator[tuple[int, Path]]:
    """The port of a server that is reached with TLS, and the certificate to trust."""
    pem, key = certificate
    port = free_port()
    options = {"cacertfile": pem, "certfile": pem, "keyfile": key, "verify": "verify_none"}
    server = servers.start(
        "rabbitmq-4",
        f"listeners.ssl.default = 127.0.0.1:{port}",
        *(f"ssl_options.{name} = {value}" for name, value in options.items()),
    )
    # it listens there a moment after it serves without TLS
    while "started TLS (SSL) listener" not in server.log.read_text():
        await SystemClock().sleep(0.02)
    yield port, pem
    server.kill()


@pytest.mark.xdist_group("rabbitmq-4")
async def test_tls(trusted, server, due):
    port, pem = trusted
    place = f"guest:guest@localhost:{port}"
    backend = RabbitMQBackend(f"amqps://{place}?cacertfile={pem}")
    store = backend.connect(NAMESPACE)
    await store.open()
    assert (await Asker(store).claim(due)).outcome is Outcome.WON
    await store.close()

    unchecked = RabbitMQBackend(f"amqps://{place}?verify=verify_none").connect(NAMESPACE)
    await unchecked.open()
    await unchecked.close()

    # a certificate that nobody vouches for, and one of another name
    untrusted = await refused(f"amqps://{place}")
    assert type(untrusted) is StoreRefused
    assert "certificate" in untrusted.problem
    another = f"amqps://guest:guest@127.0.0.1:{port}?cacertfile={pem}"
    assert "no TLS connection" in (await refused(another)).problem
    # with TLS where there is none, and the other way round
    assert "no TLS connection" in (await refused(f"amqps://127.0.0.1:{server.port}")).problem
    plain = await refused(f"amqp://127.0.0.1:{port}")
    assert "nothing there answers as RabbitMQ does without TLS" in plain.problem
