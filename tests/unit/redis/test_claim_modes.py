"""The modes without leases: what each keeps, for how long, and who may not use it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from redis import Redis

from anarchon.backends import open_backend
from anarchon.backends.redis import RedisBackend, RedisClaimBackend
from anarchon.backends.redis.keys import Keys
from anarchon.claim_store import ClaimBackend
from anarchon.clock import to_millis
from anarchon.errors import ConfigurationError, SchemaMismatch, StoreError, StoreUnavailable
from anarchon.store import Outcome
from anarchon_contract.claims.questions import SECOND, Asker, ended, scheduled
from anarchon_contract.leases.questions import DAY, HOUR, JOB, MINUTE
from tests.claims.harness_redis import rights, server_for
from tests.servers import Server, ServersForTests
from tests.unit.redis.scripted_server import healthy_but, scripted_server

pytestmark = pytest.mark.xdist_group("redis-8.6")

NAMESPACE = "modes"
MODES = ("script", "stream-id", "idmp")
KEYS = Keys(NAMESPACE)
SLOT = datetime(2026, 11, 29, 12, tzinfo=UTC)


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def only(mode: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("mode", [mode], indirect=True)


@pytest.fixture
def server(mode: str) -> Server:
    return server_for("redis-8.6", mode)


@pytest.fixture
def admin(server: Server) -> Iterator[Redis]:
    with Redis(port=server.port, decode_responses=True) as admin:
        admin.flushall()
        yield admin
        admin.config_set("maxmemory", 0)
        admin.config_set("maxmemory-policy", "noeviction")
        admin.flushall()


@pytest.fixture
def backend(server: Server, mode: str) -> RedisClaimBackend:
    return RedisClaimBackend(f"{server.url()}?mode={mode}")


@pytest.fixture
async def ask(backend: RedisClaimBackend, admin: Redis) -> AsyncIterator[Asker]:
    store = backend.connect(NAMESPACE)
    await store.open()
    yield Asker(store)
    await store.close()


@pytest.fixture
async def due(ask: Asker) -> datetime:
    return (await ask.time()).replace(microsecond=0) - MINUTE


def key_of(claim: str) -> str:
    return KEYS.of_claim(JOB, claim)[0]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "url",
    ["redis://h", "rediss://h/1", "unix:///s?db=2", "valkey://h", "redis+sentinel://h/main"],
)
def test_a_url_with_a_mode_is_one_of_a_store_without_leases(url, mode):
    backend = open_backend(f"{url}{'&' if '?' in url else '?'}mode={mode}")

    assert isinstance(backend, ClaimBackend)
    assert isinstance(backend, RedisClaimBackend)
    assert backend.label.endswith(f"mode={mode}")


@pytest.mark.parametrize("query", ["", "?mode=lease"])
def test_a_url_without_one_is_one_of_a_store_with_leases(query):
    backend = open_backend(f"redis://h{query}")

    assert type(backend) is RedisBackend


@pytest.mark.parametrize("given", ["claims", "", "Lease", "stream_id"])
def test_an_unknown_mode_is_refused_with_those_there_are(given):
    with pytest.raises(ConfigurationError) as raised:
        open_backend(f"redis://u:secret@h?mode={given}")

    assert raised.value.option == "store"
    assert raised.value.fix is not None
    for mode in ("lease", *MODES):
        assert f"mode={mode}" in raised.value.fix
    assert "secret" not in str(raised.value)


def test_each_backend_refuses_the_other_ones_modes():
    for make, url in ((RedisBackend, "redis://h?mode=idmp"), (RedisClaimBackend, "redis://h")):
        with pytest.raises(ConfigurationError) as raised:
            make(url)
        assert raised.value.option == "store"
        assert raised.value.fix is not None


async def test_a_namespace_is_of_one_mode(ask, server, mode):
    """Two that do not see each other's claims would both start every slot."""
    for other in ("lease", *MODES):
        if other == mode or (other == "idmp" and "8.6" not in server.name):
            continue
        backend = open_backend(f"{server.url()}?mode={other}")
        with pytest.raises(SchemaMismatch, match=f"mode={mode}"):
            await backend.connect(NAMESPACE).open()
        assert isinstance(backend, RedisBackend | RedisClaimBackend)
        with pytest.raises(SchemaMismatch, match=f"mode={mode}"):
            await backend.examine(NAMESPACE)


async def test_a_store_is_looked_at_and_left_as_it_is(backend, admin, mode):
    before = await backend.examine(NAMESPACE)
    store = backend.connect(NAMESPACE)
    await store.open()
    await store.close()
    after = await backend.examine(NAMESPACE)

    assert (before.is_prepared, after.is_prepared) == (False, True)
    assert before.server.startswith("Redis 8.")
    assert admin.keys() == [KEYS.layout]


@pytest.mark.parametrize("name", ["redis-8.0", "valkey-9"])
@pytest.mark.parametrize("may_look", [True, False], ids=["", "without +info"])
async def test_idmp_is_refused_where_the_server_does_not_have_it(
    servers: ServersForTests, name, may_look
):
    server = servers.get(name)
    with Redis(port=server.port) as admin:
        looking = ["+info"] if may_look else []
        granted = ("u", "reset", "on", ">p", *rights("idmp")[:-1], *looking)
        admin.execute_command("ACL", "SETUSER", *granted)
        backend = RedisClaimBackend(f"redis://u:p@127.0.0.1:{server.port}?mode=idmp")

        store = backend.connect(NAMESPACE)

        for ask in (store.open, partial(backend.examine, NAMESPACE)):
            with pytest.raises(StoreError, match=r"Redis 8\.6 or later") as raised:
                await ask()
            assert "mode=script" in raised.value.problem
            assert not isinstance(raised.value, StoreUnavailable)
        await store.close()
        admin.execute_command("ACL", "DELUSER", "u")


@pytest.mark.parametrize("missing", ["xadd", "xrevrange", "xcfgset"])
@only("idmp")
async def test_a_right_that_is_missing_is_named_at_open(server, admin, mode, missing):
    granted = [right for right in rights(mode) if right != f"+{missing}"]
    admin.execute_command("ACL", "SETUSER", "u", "reset", "on", ">p", *granted)
    backend = RedisClaimBackend(f"redis://u:p@127.0.0.1:{server.port}?mode={mode}")
    store = backend.connect(NAMESPACE)

    with pytest.raises(StoreUnavailable, match=rf"\+{missing}"):
        await store.open()
    with pytest.raises(StoreUnavailable, match=rf"\+{missing}"):
        await backend.examine(NAMESPACE)

    await store.close()
    admin.execute_command("ACL", "DELUSER", "u")


async def test_a_batch_is_one_flight_and_one_call_a_job(mode):
    """A store that waited for the first answer before it sends the second call waits for ever."""
    calls: list[str] = []
    none = b"*3\r\n:1795967700979\r\n$4\r\nnone\r\n$-1\r\n"
    layout = f"1 {mode}"
    healthy = healthy_but(GET=f"${len(layout)}\r\n{layout}\r\n".encode())

    def say(command: list[str]) -> bytes | None:
        if command[0] != "EVALSHA":
            return healthy(command)
        calls.append(command[3])
        return none * 2 if len(calls) == 2 else b""

    async with scripted_server(say) as port:
        store = RedisClaimBackend(f"redis://127.0.0.1:{port}?mode={mode}").connect(NAMESPACE)
        reply = await store.claim([scheduled(SLOT, job=job) for job in "ab"])
        await store.close()

    assert [answer.outcome for answer in reply.answers] == [Outcome.NONE] * 2
    assert len(set(calls)) == 2


@only("script")
async def test_a_script_s_claim_goes_by_itself_when_nobody_can_ask_any_more(ask, backend, admin):
    now = await ask.time()
    for count, within in enumerate((SECOND, HOUR, 2 * DAY)):
        slot = now.replace(microsecond=0) - count * SECOND
        await ask.claim(slot, within=within + MINUTE)

        left = timedelta(milliseconds=admin.pttl(key_of(f"claim:{to_millis(slot)}")))

        remembered = backend.remembers(within + MINUTE)
        assert remembered - MINUTE < left <= remembered
        assert remembered >= max(HOUR, 2 * within)


@only("script")
async def test_a_script_s_claim_is_a_key_beside_the_history(ask, admin, due):
    await ask.claim(due)

    assert sorted(admin.keys()) == sorted(
        [KEYS.layout, *KEYS.of_claim(JOB, f"claim:{to_millis(due)}")]
    )


@only("stream-id")
async def test_a_stream_of_ids_is_a_high_water_mark(ask, due):
    await ask.claim(due, "a")

    older = [(await ask.claim(due - count * SECOND, "b")) for count in (1, 2)]

    assert [(answer.outcome, answer.holder) for answer in older] == [(Outcome.DONE, None)] * 2
    assert (await ask.claim(due + SECOND, "b")).outcome is Outcome.WON


@only("stream-id")
async def test_a_stream_of_ids_remembers_what_it_no_more_holds(ask, backend, admin, due):
    await ask.claim(due, "a")
    admin.xtrim(key_of("slots"), maxlen=0)

    heard = [(await ask.claim(due - count * SECOND, "b")).outcome for count in (0, 1)]

    assert heard == [Outcome.DONE, Outcome.DONE]
    assert (await ask.claim(due + SECOND, "b")).outcome is Outcome.WON
    assert backend.remembers(HOUR) is None


@only("stream-id")
async def test_a_stream_of_ids_stays_flat(ask, admin, due):
    for count in range(400):
        await ask.claim(due + count * timedelta(milliseconds=1), "a")

    assert admin.xlen(key_of("slots")) <= 200
    assert (await ask.claim(due, "b")).outcome is Outcome.DONE


@only("idmp")
async def test_ids_are_remembered_for_a_day_from_the_first_one_on(ask, backend, admin, due):
    """Other values than the server's own, which are too few and too short."""
    assert admin.config_get("stream-idmp-maxsize")["stream-idmp-maxsize"] == "100"
    for count in range(300):
        await ask.claim(due + count * timedelta(milliseconds=1), "a")
    known = admin.xinfo_stream(key_of("claims"))

    assert (known["idmp-duration"], known["idmp-maxsize"]) == (86_400, 10_000)
    assert known["iids-tracked"] == 300
    assert (await ask.claim(due, "b")).outcome is Outcome.DONE
    assert backend.remembers(HOUR) == DAY


@only("idmp")
async def test_an_id_outlives_its_entry(ask, admin, due):
    await ask.claim(due, "a")
    admin.xtrim(key_of("claims"), maxlen=0, approximate=False)

    answer = await ask.claim(due, "b")

    assert (answer.outcome, answer.holder) == (Outcome.DONE, None)


@only("idmp")
async def test_nothing_is_won_by_an_id_that_may_be_forgotten(ask, due):
    answer = await ask.claim(due - DAY, within=7 * DAY)

    assert answer.outcome is Outcome.LATE


@only("idmp")
async def test_a_stream_of_claims_stays_flat(ask, admin, due):
    for count in range(1500):
        await ask.claim(due + count * timedelta(milliseconds=1), "a")

    assert admin.xlen(key_of("claims")) <= 1200
    assert (await ask.claim(due, "b")).outcome is Outcome.DONE


async def test_a_claim_that_was_lost_leaves_no_second_record(ask, admin, due):
    await ask.claim(due, "a", instance="web-1")
    for key in admin.scan_iter():
        if not key.endswith((":history", ":layout")):
            admin.delete(key)

    assert (await ask.claim(due, "b", instance="web-2")).outcome is Outcome.WON
    (attempt,) = await ask.history()
    assert attempt.instance == "web-2"


async def test_a_history_holds_as_many_entries_as_are_kept(ask, admin, due):
    for count in range(100):
        slot = due + count * timedelta(milliseconds=1)
        await ask.claim(slot, "a")
        await ask.save(ended(slot), keep=5)

    assert admin.xlen(KEYS.of_claim(JOB, "")[1]) == 5


@pytest.mark.parametrize("policy", ["volatile-lru", "allkeys-lru"])
async def test_a_policy_that_deletes_claims_is_warned_of(ask, backend, admin, mode, policy, caplog):
    admin.config_set("maxmemory", "100mb")
    admin.config_set("maxmemory-policy", policy)
    expected = policy == "allkeys-lru" or mode == "script"

    doubts = (await backend.examine(NAMESPACE)).doubts
    with caplog.at_level(logging.WARNING):
        other = backend.connect(NAMESPACE)
        await other.open()
        await other.close()

    assert any(policy in doubt for doubt in doubts) is expected
    assert (policy in caplog.text) is expected


async def test_a_full_server_starts_nothing_and_nothing_has_happened(ask, admin, due):
    admin.config_set("maxmemory", 1)

    with pytest.raises(StoreUnavailable):
        await ask.claim(due, "a")
    admin.config_set("maxmemory", 0)

    assert (await ask.claim(due, "b")).outcome is Outcome.WON
