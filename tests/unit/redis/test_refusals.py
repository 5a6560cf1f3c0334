"""What a server may answer in place of an answer, and what it means to who asked."""

from __future__ import annotations

import traceback
from datetime import UTC, datetime

import pytest

from anarchon.backends.redis import RedisBackend
from anarchon.errors import OutcomeUnknown, SchemaMismatch, StoreError, StoreUnavailable
from anarchon.store import Renewal
from tests.unit.redis.scripted_server import HEALTHY, healthy_but, scripted_server

SLOT = datetime(2026, 11, 29, 12, tzinfo=UTC)
YES = b"*2\r\n:1795967700979\r\n:1\r\n"


async def _renew(say, jobs=("a", "b", "c"), url="redis://127.0.0.1:{}"):
    async with scripted_server(say) as port:
        store = RedisBackend(url.format(port)).connect("n")
        try:
            return await store.renew([Renewal(job, SLOT, "t") for job in jobs])
        finally:
            await store.close()


@pytest.mark.parametrize(
    "refusal",
    [
        "LOADING Redis is loading the dataset in memory",
        "CLUSTERDOWN The cluster is down",
        "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
        "READONLY You can't write against a read only replica.",
        "OOM command not allowed when used memory > 'maxmemory'.",
        "NOPERM User default has no permissions to run the 'evalsha' command",
        "NOAUTH Authentication required.",
        "MISCONF Errors writing to the AOF file: No space left on device",
        "NOREPLICAS Not enough good replicas to write.",
        "BUSY Redis is busy running a script.",
        "TRYAGAIN Multiple keys request during rehashing of slot",
    ],
)
async def test_a_call_refused_before_it_began_did_not_happen(refusal):
    with pytest.raises(StoreUnavailable) as raised:
        await _renew(healthy_but(EVALSHA=f"-{refusal}\r\n".encode()))

    assert raised.value.store.startswith("redis://127.0.0.1:")
    assert refusal.partition(" ")[2] in raised.value.problem
    assert raised.value.__cause__ is not None


@pytest.mark.parametrize("refusal", [b"-LOADING a\r\n", b"-OOM b\r\n", b"-MISCONF c\r\n"])
async def test_a_batch_of_which_some_ran_may_have_happened(refusal):
    answers = iter([refusal, YES, refusal])

    with pytest.raises(OutcomeUnknown):
        await _renew(lambda command: HEALTHY.get(command[0]) or next(answers))


@pytest.mark.parametrize(
    "refusal",
    [
        b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
        b"-ERR Error running script\r\n",
        b"-MOVED 3999 127.0.0.1:6381\r\n",
    ],
)
async def test_a_member_that_cannot_be_answered_fails_the_call(refusal):
    answers = iter([YES, refusal, b"-OOM later\r\n"])

    with pytest.raises(StoreError) as raised:
        await _renew(lambda command: HEALTHY.get(command[0]) or next(answers))

    assert type(raised.value) is StoreError


@pytest.mark.parametrize("answered", range(3))
async def test_a_connection_lost_before_all_answers_may_have_happened(answered):
    answers = iter([YES] * answered + [None])

    with pytest.raises(OutcomeUnknown):
        await _renew(lambda command: HEALTHY.get(command[0]) or next(answers))


@pytest.mark.parametrize("half", [b"*2\r\n:1795", b"%not the protocol%\r\n"])
async def test_an_answer_that_breaks_off_may_have_happened(half):
    calls = iter([half, None])

    with pytest.raises(OutcomeUnknown):
        await _renew(lambda command: HEALTHY.get(command[0]) or next(calls), jobs="ab")


async def test_an_answer_that_is_slow_by_the_urls_own_limit_may_have_happened():
    with pytest.raises(OutcomeUnknown):
        await _renew(
            lambda command: HEALTHY.get(command[0], b""),
            url="redis://127.0.0.1:{}?socket_timeout=0.05",
        )


async def test_a_refused_call_is_asked_on_a_new_connection():
    """The name may stand for another server by then."""
    seen: list[str] = []

    def say(command: list[str]) -> bytes:
        seen.append(command[0])
        failed = "EVALSHA" in seen[:-1]
        return {**HEALTHY, "EVALSHA": YES if failed else b"-READONLY x\r\n"}[command[0]]

    async with scripted_server(say) as port:
        store = RedisBackend(f"redis://127.0.0.1:{port}").connect("n")
        with pytest.raises(StoreUnavailable):
            await store.renew([Renewal("a", SLOT, "t")])
        assert (await store.renew([Renewal("a", SLOT, "t")])).answers == (True,)
        await store.close()

    assert seen.count("SET") == 2


@pytest.mark.parametrize("name", ["SET", "GET"])
@pytest.mark.parametrize("refusal", [b"-LOADING x\r\n", b"-NOAUTH x\r\n", b"-READONLY x\r\n", None])
async def test_nothing_happened_where_connecting_failed(name, refusal):
    with pytest.raises(StoreUnavailable):
        await _renew(healthy_but(**{name: refusal}))


async def test_a_replica_is_refused_with_what_to_do():
    with pytest.raises(StoreUnavailable, match="read-only replica, and we need its primary"):
        await _renew(healthy_but(SET=b"-READONLY You can't write.\r\n"))


async def test_keys_of_another_layout_are_not_touched():
    with pytest.raises(SchemaMismatch, match="layout 7"):
        await _renew(healthy_but(GET=b"$1\r\n7\r\n"))


async def test_who_may_not_ask_about_memory_is_served():
    reply = await _renew(healthy_but(INFO=b"-NOPERM no\r\n", EVALSHA=YES))

    assert reply.answers == (True, True, True)


async def test_a_server_that_is_not_there_is_away():
    async with scripted_server(healthy_but()) as port:
        pass
    store = RedisBackend(f"redis://127.0.0.1:{port}").connect("n")

    with pytest.raises(StoreUnavailable):
        await store.open()


async def test_a_socket_that_is_not_there_is_away(tmp_path):
    with pytest.raises(StoreUnavailable):
        await RedisBackend(f"unix://{tmp_path}/none").connect("n").open()


async def test_a_host_that_has_no_address_is_away():
    with pytest.raises(StoreUnavailable):
        await RedisBackend("redis://no-such-host.invalid").connect("n").open()


@pytest.mark.parametrize("protocol", [2, 3])
async def test_a_password_the_server_repeats_is_not_shown(protocol):
    """Servers name the arguments of a command that they do not know."""

    def say(command: list[str]) -> bytes:
        return f"-ERR unknown command, with args beginning with: {command}\r\n".encode()

    # not one piece, because a traceback shows the lines of this test too
    password = "hunter" + str(protocol)

    with pytest.raises(StoreUnavailable) as raised:
        await _renew(say, url=f"redis://u:{password}@127.0.0.1:{{}}?protocol={protocol}")

    assert "***" in raised.value.problem
    assert password not in "".join(traceback.format_exception(raised.value))
