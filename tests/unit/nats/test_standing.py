"""Servers that cannot serve, and streams that are not as they have to be: found when opening.

``examine`` finds the same, and changes nothing.
"""

from __future__ import annotations

import asyncio
import subprocess
from datetime import timedelta

import nkeys
import pytest

from anarchon.backends.nats import NatsBackend, connection
from anarchon.clock import MILLISECOND, SystemClock
from anarchon.errors import SchemaMismatch, StoreError, StoreRefused, StoreUnavailable
from anarchon.store import Outcome
from anarchon_contract.claims.questions import SECOND
from anarchon_contract.leases.questions import HOUR, MINUTE
from tests.claims.harness_nats import rights, user
from tests.servers.nats import config
from tests.unit.nats.admin import NAMES, NAMESPACE, Admin

HOURS_OLD = 3600 * 10**9
ALL_OF_THEM = (
    "anarchon.unit.claim.*.*",
    "anarchon.unit.run.*",
    "$JS.API.DIRECT.GET.anarchon-claims-unit.>",
    "$JS.API.STREAM.INFO.anarchon-claims-unit",
    "$JS.API.STREAM.INFO.anarchon-history-unit",
    "$JS.API.STREAM.CREATE.anarchon-claims-unit",
    "$JS.API.STREAM.CREATE.anarchon-history-unit",
)


async def refused(url: str, kind: type[StoreError] = StoreError) -> str:
    """Return what is said to whoever opens the store, which is what examining says as well."""
    backend = NatsBackend(url)
    store = backend.connect(NAMESPACE)
    with pytest.raises(kind) as opened:
        await store.open()
    await store.close()
    with pytest.raises(kind) as examined:
        await backend.examine(NAMESPACE)
    assert opened.value.store == examined.value.store == backend.label
    assert opened.value.problem == examined.value.problem
    return opened.value.problem


# ---------------------------------------------------------------- examining


async def test_examining_makes_nothing(server, admin):
    standing = await NatsBackend(server.url()).examine(NAMESPACE)

    assert standing.server.startswith("NATS 2.")
    assert not standing.is_prepared
    assert not (await admin.api("STREAM.NAMES"))["streams"]


async def test_a_store_that_was_opened_is_prepared(server, ask, admin):
    standing = await NatsBackend(server.url()).examine(NAMESPACE)

    assert standing.is_prepared
    assert (await admin.count(NAMES.claims), await admin.count(NAMES.history)) == (0, 0)
    old = server.name == "nats-2.9"
    assert [doubt for doubt in standing.doubts if "does not tell its time" not in doubt] == []
    assert bool(standing.doubts) is old


async def test_claims_in_memory_are_doubted(server, ask, admin):
    await admin.make_anew(NAMES.claims, storage="memory")

    standing = await NatsBackend(server.url()).examine(NAMESPACE)

    assert any("lies in memory" in doubt for doubt in standing.doubts)


# ---------------------------------------------------------------- reaching a server


async def test_no_server_at_all_is_said():
    assert "Connect call failed" in await refused("nats://127.0.0.1:1", StoreUnavailable)


async def test_a_host_that_does_not_exist_is_said():
    assert "its host cannot be found" in await refused(
        "nats://no-such-host.invalid", StoreUnavailable
    )


async def test_a_server_that_says_nothing_is_told_from_one_that_is_not_there(monkeypatch):
    monkeypatch.setattr(connection, "_CONNECT_TIMEOUT", 0.2)

    async def keep_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(keep_silent, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        said = await refused(f"nats://127.0.0.1:{port}", StoreUnavailable)

    assert "nothing there answered as NATS does" in said


async def test_one_of_several_servers_may_come_back(server):
    """Refused by one and not reached by another: worth waiting for."""
    gone = server.url("admin:wrong") + ",127.0.0.1:1"
    store = NatsBackend(gone).connect(NAMESPACE)

    with pytest.raises(StoreUnavailable) as raised:
        await store.open()

    assert not isinstance(raised.value, StoreRefused)


@pytest.mark.parametrize("login", ["admin:wrong", "nobody:admin", "token"])
async def test_a_wrong_login_is_said_and_not_repeated(server, login):
    said = await refused(server.url(login), StoreRefused)

    assert "login was refused" in said
    assert "wrong" not in said


async def test_a_server_without_jetstream_is_said(start):
    server = start("# nothing\n")

    assert "JetStream is not enabled" in await refused(server.url(), StoreUnavailable)


async def test_an_account_without_jetstream_is_said(start):
    server = start(config().replace("jetstream: enabled", "jetstream: disabled"))

    assert "JetStream" in await refused(server.url(), StoreUnavailable)


async def test_the_limit_of_an_account_is_said(start):
    server = start(config().replace("jetstream: enabled", "jetstream: { max_streams: 1 }"))
    async with Admin.of(server.url()) as admin:
        await admin.api("STREAM.CREATE.theirs", name="theirs", subjects=["theirs"])
    store = NatsBackend(server.url()).connect(NAMESPACE)

    with pytest.raises(StoreUnavailable) as raised:
        await store.open()

    assert "maximum number of streams reached" in raised.value.problem
    await store.close()


async def test_a_full_stream_refuses_claims_and_forgets_none(server, admin, ask, due):
    await ask.claim(due, "a")
    await admin.update(NAMES.claims, max_bytes=300)

    async def claim_until_it_is_full() -> None:
        for count in range(1, 5):
            await ask.claim(due + count * SECOND, "b")

    with pytest.raises(StoreUnavailable) as raised:
        await claim_until_it_is_full()

    assert "maximum bytes exceeded" in raised.value.problem
    assert (await ask.claim(due, "b")).outcome is Outcome.DONE


# ---------------------------------------------------------------- rights


@pytest.mark.parametrize("missing", ALL_OF_THEM)
async def test_a_right_that_is_missing_is_named(start, missing):
    allowed = rights(NAMESPACE).replace(f'"{missing}"', "")
    server = start(config(user("worker", "worker", allowed)))
    if "STREAM.CREATE" not in missing:
        store = NatsBackend(server.url()).connect(NAMESPACE)
        await store.open()
        await store.close()

    said = await refused(server.url("worker:worker"), StoreRefused)

    named = missing.replace("*.*", "rights.0").replace("*", "rights").rstrip(">")
    assert said.startswith(f"this user may not publish to {named}")


async def test_the_right_to_make_streams_is_not_needed_where_they_are(start, connect):
    allowed = "\n".join(
        line
        for line in rights(NAMESPACE).splitlines()
        if "STREAM.CREATE" not in line and "STREAM.UPDATE" not in line
    )
    server = start(config(user("worker", "worker", allowed)))
    owner = await connect(server.url())
    due = (await owner.time()).replace(microsecond=0) - SECOND

    worker = await connect(server.url("worker:worker"))

    assert (await worker.claim(due, "a")).outcome is Outcome.WON
    assert len(await worker.history()) == 1


async def test_no_right_to_hear_answers_is_said(start):
    allowed = rights(NAMESPACE).replace("_INBOX.anarchon.>", "elsewhere.>")
    server = start(config(user("worker", "worker", allowed)))

    said = await refused(server.url("worker:worker"), StoreRefused)

    assert said == "this user may not subscribe to _INBOX.anarchon.>"


# ---------------------------------------------------------------- logging in, TLS


async def test_a_token_logs_in(start):
    server = start('jetstream { store_dir: "data" }\nauthorization { token: "s3cr@t" }\n')

    standing = await NatsBackend(server.url("s3cr%40t")).examine(NAMESPACE)

    assert not standing.is_prepared


async def test_a_key_logs_in(start, tmp_path):
    pair = nkeys.from_seed(bytearray(b"SUAMLK2ZNL35WSMW37E7UD4VZ7ELPKW7DHC3BWBSD2GCZ7IUQQXZIORRBU"))
    seed = tmp_path / "seed"
    seed.write_bytes(bytes(pair.seed))
    users = f"authorization {{ users: [ {{ nkey: {pair.public_key.decode()} }} ] }}"
    server = start(f'jetstream {{ store_dir: "data" }}\n{users}\n')

    standing = await NatsBackend(f"{server.url()}?nkey={seed}").examine(NAMESPACE)

    assert not standing.is_prepared
    assert "login was refused" in await refused(server.url(), StoreRefused)


@pytest.fixture
def certificate(tmp_path):
    certificate, key = tmp_path / "server.crt", tmp_path / "server.key"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    return certificate, key


async def test_a_server_is_asked_over_tls_with_a_password(start, certificate, connect):
    server = start(
        config(), "--tls", "--tlscert", str(certificate[0]), "--tlskey", str(certificate[1])
    )
    address = server.url("admin:admin").replace("nats://", "tls://")

    ask = await connect(f"{address}?tls_ca_certs={certificate[0]}")
    due = (await ask.time()).replace(microsecond=0) - SECOND

    assert (await ask.claim(due, "a")).outcome is Outcome.WON
    # nobody vouches for it
    assert "certificate verify failed" in (await refused(address, StoreRefused)).lower()


async def test_no_password_is_sent_where_tls_is_asked_for_and_not_offered():
    """By somebody on the way, perhaps."""
    heard: list[bytes] = []

    async def pretend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"version":"2.15.1","headers":true,"auth_required":true}\r\n')
        heard.append(await reader.read())
        writer.close()

    async with await asyncio.start_server(pretend, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        said = await refused(f"tls://admin:s3cret@127.0.0.1:{port}", StoreRefused)

    assert "tls:// does not go without it" in said
    assert b"s3cret" not in b"".join(heard)


# ---------------------------------------------------------------- streams that are there


async def test_streams_of_a_later_version_are_refused(server, ask, admin):
    await admin.update(NAMES.history, description="anarchon history, layout 2")

    said = await refused(server.url(), SchemaMismatch)

    assert "layout 2" in said


async def test_a_stream_of_somebody_else_is_refused(server, admin):
    await admin.api(
        f"STREAM.CREATE.{NAMES.claims}", name=NAMES.claims, subjects=["theirs"], storage="memory"
    )

    assert "was not made by anarchon" in await refused(server.url())


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"discard": "old"}, "discard 'old', and 'new'"),
        ({"max_msgs": 1000}, "max_msgs 1000, and -1"),
        ({"max_msgs_per_subject": 1}, "max_msgs_per_subject 1, and -1"),
        ({"allow_direct": False}, "allow_direct False, and True"),
        ({"subjects": ["anarchon.unit.claim.>"]}, "subjects"),
    ],
    ids=lambda case: case if isinstance(case, str) else next(iter(case)),
)
async def test_a_stream_that_could_lose_claims_is_refused(server, ask, admin, changed, named):
    await admin.update(NAMES.claims, **changed)

    said = await refused(server.url())

    assert f"{NAMES.claims} has {named}" in said
    assert "nats stream edit" in said


async def test_a_stream_that_is_changed_meanwhile_is_noticed_at_the_next_claim(admin, ask, due):
    await admin.update(NAMES.claims, discard="old")

    with pytest.raises(StoreError, match="discard"):
        await ask.claim(due)


async def test_another_number_of_replicas_than_the_url_wants_is_said(server, ask):
    assert "num_replicas 1, and 3" in await refused(f"{server.url()}?replicas=3")


async def test_more_replicas_than_there_are_servers_are_said(server, connect):
    with pytest.raises(StoreUnavailable) as raised:
        await connect(f"{server.url()}?replicas=3")

    assert "replicas" in raised.value.problem


# ---------------------------------------------------------------- for how long claims are kept


async def test_claims_are_kept_for_as_long_as_the_url_says(server, connect, admin):
    await connect(f"{server.url()}?remember=2h")

    assert (await admin.config(NAMES.claims))["max_age"] == 2 * HOURS_OLD


async def test_a_job_that_has_longer_to_start_makes_the_stream_remember_for_longer(
    server, admin, ask, due
):
    """G2: it is set before the claim, and never lower."""
    await ask.claim(due, "a", within=20 * HOUR)
    await ask.claim(due, "b", within=MINUTE)

    needed = NatsBackend(server.url()).remembers(20 * HOUR)
    assert needed == 40 * HOUR + MINUTE
    assert (await admin.config(NAMES.claims))["max_age"] == needed // MILLISECOND * 10**6


async def test_a_stream_that_was_told_to_forget_sooner_is_set_right_before_a_claim(admin, ask, due):
    await admin.update(NAMES.claims, max_age=HOURS_OLD, duplicate_window=10**9)

    assert (await ask.claim(due, "a")).outcome is Outcome.WON

    assert (await admin.config(NAMES.claims))["max_age"] == 24 * HOURS_OLD


async def test_a_stream_that_forgets_nothing_is_left_as_it_is(admin, ask, due):
    await admin.update(NAMES.claims, max_age=0)

    await ask.claim(due, "a", within=20 * HOUR)

    assert (await admin.config(NAMES.claims))["max_age"] == 0


async def test_without_the_right_to_update_it_the_age_that_is_needed_is_said(start, connect):
    allowed = "\n".join(
        line for line in rights(NAMESPACE).splitlines() if "STREAM.UPDATE" not in line
    )
    server = start(config(user("worker", "worker", allowed)))
    worker = await connect(server.url("worker:worker"))
    due = (await worker.time()).replace(microsecond=0) - SECOND

    with pytest.raises(StoreError) as raised:
        await worker.claim(due, "a", within=20 * HOUR)

    assert "needed; it could not be changed" in raised.value.problem
    assert "set its max age to 1d16h1m or more" in raised.value.problem
    assert (await worker.claim(due, "a")).outcome is Outcome.WON


@pytest.mark.soak
@pytest.mark.timeout(200)
async def test_a_claim_is_forgotten_when_the_url_says_and_not_before(server, connect):
    """G2"""
    ask = await connect(f"{server.url()}?remember=62s")
    within = timedelta(seconds=1)
    due = (await ask.time()) - MILLISECOND
    assert (await ask.claim(due, "a", within=within)).outcome is Outcome.WON
    heard = [(await ask.claim(due, "b", within=within)).outcome]
    while heard[-1] is Outcome.DONE:
        await SystemClock().sleep(0.2)
        asked = await ask.time()
        heard.append((await ask.claim(due, "b", within=within)).outcome)

    assert heard[-1] is Outcome.LATE
    assert timedelta(seconds=62) <= asked - due < timedelta(seconds=75)
