"""`wait_replicas`: what was granted counts once replicas have it, also when it is asked again."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from datetime import datetime, timedelta

import pytest
from redis import Redis

from anarchon.backends.redis import RedisBackend, RedisStore, connection
from anarchon.backends.redis.keys import Keys
from anarchon.errors import OutcomeUnknown, StoreUnavailable
from anarchon.run import Overlap, RunState
from anarchon.store import (
    Claim,
    Finish,
    Mode,
    Outcome,
    Prune,
    Registration,
    Release,
    Renewal,
    Terms,
)
from anarchon_contract.leases.questions import begin_of, tracked_claim_of
from tests.contract.harness_redis import rights
from tests.servers import Server, ServersForTests
from tests.unit.redis.scripted_server import healthy_but, scripted_server

NAMESPACE = "replicas"
TERMS = Terms(timedelta(hours=1), Overlap.SKIP, 3, RunState.RUNNING)
ANSWERED_YES = b"*2\r\n:1795967700979\r\n:1\r\n"


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """Most of these tests wait for a replica that does not answer."""
    monkeypatch.setattr(connection, "_REPLICAS_MILLIS", 300)


# how a server knows what a connection wrote has changed over the versions
@pytest.fixture(
    scope="module",
    params=[
        *(pytest.param(n, marks=pytest.mark.xdist_group(n)) for n in ("redis-8.0", "valkey-9")),
        *(pytest.param(n, marks=pytest.mark.soak) for n in ("redis-7.0", "valkey-8.0")),
    ],
)
def pair(request: pytest.FixtureRequest, servers: ServersForTests) -> Iterator[list[Server]]:
    primary = servers.start(request.param)
    replica = servers.start(request.param, "--replicaof", "127.0.0.1", str(primary.port))
    yield [primary, replica]
    replica.stop()
    primary.stop()


@pytest.fixture
def primary(pair: list[Server]) -> Server:
    return pair[0]


@pytest.fixture
def replica(pair: list[Server]) -> Iterator[Server]:
    yield pair[1]
    pair[1].resume()


@pytest.fixture
def admin(primary: Server, replica: Server) -> Iterator[Redis]:
    with Redis(port=primary.port, decode_responses=True) as admin:
        admin.flushall()
        assert any(admin.execute_command("WAIT", 1, 100) for _ in range(200)), "no replica came"
        yield admin


@pytest.fixture
async def store(primary: Server, admin: Redis) -> AsyncIterator[RedisStore]:
    store = RedisBackend(f"{primary.url()}?wait_replicas=1").connect(NAMESPACE)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def due(store: RedisStore, admin: Redis) -> datetime:
    """A slot of the jobs a and b, due a minute ago."""
    now = (await store.active([Registration(job, "v1") for job in "ab"])).time
    for job in "ab":
        admin.hset(Keys(NAMESPACE).of_job(job)[0], "floor", 0)
    return now.replace(microsecond=0) - timedelta(minutes=1)


def claim_of(slot: datetime, job: str = "a", token: str = "t") -> Claim:
    return Claim(job, slot, token, Mode.SCHEDULED, "web-1", TERMS, timedelta(hours=1))


async def test_what_a_replica_has_is_granted(store, due):
    claimed = await store.claim([claim_of(due), claim_of(due, "b")])
    renewed = await store.renew([Renewal("a", due, "t"), Renewal("b", due, "other")])
    finished = await store.finish([Finish("a", due, "t", RunState.SUCCESS)])

    assert [answer.outcome for answer in claimed.answers] == [Outcome.WON, Outcome.WON]
    assert (renewed.answers, finished.answers) == ((True, False), (True,))


async def test_a_claim_that_no_replica_has_is_not_won_however_often_it_is_asked(
    store, due, replica
):
    """G1. Each failure costs the connection, so that each repeat comes on a new one."""
    replica.pause()
    for _ in range(2):
        with pytest.raises(OutcomeUnknown, match="only 0 of 1 replicas"):
            await store.claim([claim_of(due)])
    replica.resume()

    (answer,) = (await store.claim([claim_of(due)])).answers

    assert (answer.outcome, answer.attempt) == (Outcome.WON, 1)


async def test_an_end_that_no_replica_has_is_not_recorded_however_often_it_is_asked(
    store, due, replica
):
    """G2."""
    await store.claim([claim_of(due)])
    replica.pause()
    for _ in range(2):
        with pytest.raises(OutcomeUnknown, match="only 0 of 1 replicas"):
            await store.finish([Finish("a", due, "t", RunState.SUCCESS)])
    replica.resume()

    assert (await store.finish([Finish("a", due, "t", RunState.SUCCESS)])).answers == (True,)


async def test_a_renewal_that_no_replica_has_is_not_trusted_however_often_it_is_asked(
    store, due, replica
):
    """G1: the replica would give the lease away when the last renewal it knows of has lapsed."""
    await store.claim([claim_of(due)])
    replica.pause()
    for _ in range(2):
        with pytest.raises(OutcomeUnknown, match="only 0 of 1 replicas"):
            await store.renew([Renewal("a", due, "t")])
    replica.resume()

    assert (await store.renew([Renewal("a", due, "t")])).answers == (True,)


async def test_a_beginning_that_no_replica_has_lets_nobody_start_however_often_it_is_asked(
    store, due, replica
):
    """G12: the promoted replica would let a second delivery begin."""
    await store.claim([tracked_claim_of(due, "t", job="a")])
    replica.pause()
    for _ in range(2):
        with pytest.raises(OutcomeUnknown, match="only 0 of 1 replicas"):
            await store.begin([begin_of(due, "t", job="a")])
    replica.resume()

    assert (await store.begin([begin_of(due, "t", job="a")])).answers == (True,)


async def test_what_is_no_promise_waits_for_nobody(store, due, replica):
    """G7: a stop must not take as long as replicas are away."""
    await store.claim([claim_of(due)])
    replica.pause()

    assert (await store.release([Release("a", due, "t")])).answers == (True,)
    await store.active([Registration("a", "v1")])
    await store.prune([Prune("a", 1000, timedelta(0))])
    assert len((await store.history(["a"], 10)).answers) == 1


async def test_a_call_whose_scripts_had_to_be_loaded_is_waited_for_too(store, due, admin, replica):
    admin.script_flush()
    replica.pause()

    with pytest.raises(OutcomeUnknown, match="only 0 of 1 replicas"):
        await store.claim([claim_of(due)])


async def test_to_ask_again_in_the_same_millisecond_is_a_write_too(store, due, admin):
    """A server answers at once, whatever its replicas have, to a connection that wrote nothing."""
    await store.claim([claim_of(due)])
    renewal = store._renewal(Renewal("a", due, "t"))
    await store.renew([Renewal("a", due, "t")])
    writes: list[int] = []

    for calls in (1, 2):
        before = admin.info("persistence")["rdb_changes_since_last_save"]
        # nothing comes between the two of a transaction, and often not the next millisecond
        with admin.pipeline(transaction=True) as together:
            for _ in range(calls):
                together.execute_command(*renewal)
            times = {answer[0] for answer in together.execute()}
        writes.append(admin.info("persistence")["rdb_changes_since_last_save"] - before)

    assert len(times) == 1, "it was not the same millisecond"
    assert writes == [1, 2]


async def test_waiting_takes_no_trip_of_its_own(store, due, admin):
    """Counted by the server: what it read from us."""
    await store.claim([claim_of(due)])
    with Redis(port=admin.connection_pool.connection_kwargs["port"]) as watcher:
        watcher.ping()
        # each second the replica says how far it is, which is a read too: a few are tried
        trips = set()
        for _ in range(5):
            before = watcher.info("stats")["total_reads_processed"]
            await store.renew([Renewal("a", due, "t")])
            trips.add(watcher.info("stats")["total_reads_processed"] - before)

    # our call, the replica's word, and the second question about it
    assert min(trips) == 3


async def test_nobody_is_waited_for_where_the_url_does_not_ask(primary, admin, due):
    admin.config_resetstat()
    store = RedisBackend(primary.url()).connect(NAMESPACE)

    await store.claim([claim_of(due)])
    await store.close()

    assert "cmdstat_wait" not in admin.info("commandstats")


@pytest.mark.parametrize(("wanted", "warnings"), [(0, 0), (1, 0), (3, 1)])
async def test_a_server_with_too_few_replicas_is_named_once(
    primary, admin, caplog, wanted, warnings
):
    backend = RedisBackend(f"{primary.url()}?wait_replicas={wanted}")

    with caplog.at_level(logging.WARNING, "anarchon.backends.redis"):
        for _ in range(2):
            store = backend.connect(NAMESPACE)
            await store.open()
            await store.close()

    assert len(caplog.records) == warnings
    for record in caplog.records:
        assert "wait_replicas=3, but the server has 1 connected replicas" in record.getMessage()


async def test_the_right_to_wait_is_missed_before_anything_is_written(primary, admin, due):
    admin.execute_command("ACL", "SETUSER", "worker", "reset", "on", ">p", *rights())
    url = f"redis://worker:p@127.0.0.1:{primary.port}?wait_replicas=1"
    store = RedisBackend(url).connect(NAMESPACE)

    with pytest.raises(StoreUnavailable, match="'wait'"):
        await store.claim([claim_of(due)])
    assert admin.hlen(Keys(NAMESPACE).of_job("a")[1]) == 0
    admin.execute_command("ACL", "SETUSER", "worker", "+wait")
    assert (await store.claim([claim_of(due)])).answers[0].outcome is Outcome.WON
    await store.close()


@pytest.mark.parametrize(
    "word",
    [
        b"-UNBLOCKED force unblock from blocking operation, instance state changed\r\n",
        b"-ERR WAIT cannot be used with replica instances.\r\n",
        b":1\r\n",
        None,
    ],
)
async def test_whatever_ends_the_waiting_it_may_have_happened(word):
    waits: Iterator[bytes | None] = iter([b":0\r\n", word])

    def say(command: list[str]) -> bytes | None:
        if command[0] == "WAIT":
            return next(waits)
        return healthy_but(EVALSHA=ANSWERED_YES)(command)

    async with scripted_server(say) as port:
        store = RedisBackend(f"redis://127.0.0.1:{port}?wait_replicas=2").connect("n")
        with pytest.raises(OutcomeUnknown):
            await store.renew([Renewal("a", datetime.fromtimestamp(0).astimezone(), "t")])
        await store.close()


async def test_a_call_that_was_refused_did_not_happen_whoever_waited():
    refused = healthy_but(EVALSHA=b"-READONLY You can't write.\r\n", WAIT=b":0\r\n")

    async with scripted_server(refused) as port:
        store = RedisBackend(f"redis://127.0.0.1:{port}?wait_replicas=2").connect("n")
        with pytest.raises(StoreUnavailable):
            await store.renew([Renewal("a", datetime.fromtimestamp(0).astimezone(), "t")])
        await store.close()
