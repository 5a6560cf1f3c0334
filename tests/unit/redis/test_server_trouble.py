"""A real server that restarts, freezes, forgets its scripts or its data, or is full."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TypeAlias

import pytest
from redis import Redis

from anarchon.backends.redis import RedisBackend, RedisStore
from anarchon.backends.redis.keys import Keys
from anarchon.clock import SystemClock
from anarchon.errors import StoreUnavailable
from anarchon.run import Overlap, RunState
from anarchon.store import Claim, Finish, Mode, Outcome, Prune, Registration, Renewal, Terms
from tests.servers import Server, ServersForTests

SERVER = "valkey-9"
pytestmark = pytest.mark.xdist_group(SERVER)

NAMESPACE = "trouble"
TERMS = Terms(timedelta(hours=1), Overlap.SKIP, 3, RunState.RUNNING)

Connect: TypeAlias = Callable[[], RedisStore]


@pytest.fixture
def server(servers: ServersForTests) -> Server:
    return servers.get(SERVER)


@pytest.fixture
def admin(server: Server):
    with Redis(port=server.port, decode_responses=True) as admin:
        admin.flushall()
        yield admin
        admin.config_set("maxmemory", 0)
        admin.config_set("maxmemory-policy", "noeviction")
        admin.replicaof("NO", "ONE")
        admin.flushall()


@pytest.fixture
async def store(server: Server, admin: Redis) -> AsyncIterator[RedisStore]:
    store = RedisBackend(server.url()).connect(NAMESPACE)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def due(store: RedisStore, admin: Redis) -> datetime:
    """A slot of the jobs a, b and c, due a minute ago."""
    now = (await store.active([Registration(job, "v1") for job in "abc"])).time
    for job in "abc":
        record, *_ = Keys(NAMESPACE).of_job(job)
        admin.hset(record, "floor", 0)
    return now.replace(microsecond=0) - timedelta(minutes=1)


def claim_of(slot: datetime, job: str = "a", token: str = "t") -> Claim:
    return Claim(job, slot, token, Mode.SCHEDULED, "web-1", TERMS, timedelta(hours=1))


async def outcome_of(store: RedisStore, claim: Claim) -> Outcome:
    (answer,) = (await store.claim([claim])).answers
    return answer.outcome


async def test_a_server_that_restarted_in_between_is_asked_as_if_nothing_was(store, server, due):
    await store.claim([claim_of(due)])

    server.restart()
    # the loop hears of the closed connection
    await SystemClock().sleep(0)

    assert await outcome_of(store, claim_of(due)) is Outcome.WON
    assert (await store.finish([Finish("a", due, "t", RunState.SUCCESS)])).answers == (True,)


async def test_a_server_is_away_as_long_as_it_is_down(store, server, due):
    server.stop()
    try:
        for _ in range(2):
            await SystemClock().sleep(0)
            with pytest.raises(StoreUnavailable):
                await store.claim([claim_of(due)])
    finally:
        server.start()

    assert await outcome_of(store, claim_of(due)) is Outcome.WON


async def test_a_call_given_up_while_the_server_is_frozen_leaves_no_answer_behind(
    store, server, due
):
    server.pause()
    try:
        with pytest.raises(TimeoutError):
            async with SystemClock().timeout(0.05):
                await store.claim([claim_of(due, job) for job in "abc"])
    finally:
        server.resume()

    renewed = await store.renew([Renewal("a", due, "not the token"), Renewal("b", due, "nor this")])
    reply = await store.claim([claim_of(due, job) for job in "abc"])

    assert renewed.answers == (False, False)
    assert [(answer.outcome, answer.attempt) for answer in reply.answers] == [(Outcome.WON, 1)] * 3


async def test_connecting_to_a_frozen_server_can_be_given_up(server, admin):
    store = RedisBackend(server.url()).connect(NAMESPACE)
    server.pause()
    try:
        with pytest.raises(TimeoutError):
            async with SystemClock().timeout(0.05):
                await store.open()
    finally:
        server.resume()

    await store.open()
    await store.close()


async def test_a_server_that_forgot_its_scripts_is_told_them(store, admin, due):
    admin.script_flush()

    assert await outcome_of(store, claim_of(due)) is Outcome.WON


async def test_of_a_batch_cut_by_a_flush_each_member_runs_once(store, admin, due):
    """The members before it are not asked again, which the history would show."""
    before, after = (store._claim(claim_of(due, job)) for job in "ab")
    renewal = store._renewal(Renewal("b", due, "t"))
    await store.claim([claim_of(due, "c")])

    first, _, second, third = await store._link.ask([before, ("SCRIPT", "FLUSH"), after, renewal])

    assert (first[1], second[1], third[1]) == ("won", "won", 1)
    assert admin.info("commandstats")["cmdstat_evalsha"]["calls"] >= 4
    history = await store.history(["a", "b"], 10)
    assert [(attempt.job, attempt.attempt) for attempt in history.answers] == [("b", 1), ("a", 1)]


async def test_a_batch_is_one_trip(store, admin, due):
    """Counted by the server: what it read from us, and when."""
    await store.claim([claim_of(due, "c")])
    own = next(c for c in admin.client_list() if "evalsha" in c["cmd"])
    before = admin.info("stats")["total_reads_processed"]

    await store.claim([claim_of(due, job) for job in "ab"])

    # the second question of ours about it is a read too
    assert admin.info("stats")["total_reads_processed"] - before == 2
    assert any(c["id"] == own["id"] for c in admin.client_list())


async def test_a_detail_with_pieces_of_a_file_name_that_is_no_text_comes_back(store, due):
    await store.claim([claim_of(due)])
    detail = "no such file: caf\udce9 ñ \ud800"

    await store.finish([Finish("a", due, "t", RunState.FAILED, detail)])

    assert (await store.history(["a"], 1)).answers[0].detail == detail


async def test_losers_write_nothing(store, admin, due):
    await store.claim([claim_of(due, job) for job in "abc"])
    before = admin.info("persistence")["rdb_changes_since_last_save"]

    reply = await store.claim([claim_of(due, job, "other") for job in "abc"])

    assert {answer.outcome for answer in reply.answers} == {Outcome.RUNNING}
    assert admin.info("persistence")["rdb_changes_since_last_save"] == before


async def test_a_server_that_lost_its_data_has_nothing_to_catch_up(store, admin, due):
    first = (await store.claim([claim_of(due)])).answers[0]

    admin.flushall()

    assert (await store.renew([Renewal("a", due, "t")])).answers == (False,)
    assert (await store.finish([Finish("a", due, "t", RunState.SUCCESS)])).answers == (False,)
    asked = replace(claim_of(due), mode=Mode.CATCH_UP)
    assert await outcome_of(store, asked) is Outcome.DONE
    (late,) = (await store.claim([claim_of(await _next_moment(store))])).answers
    assert late.outcome is Outcome.WON
    assert late.fence > first.fence


async def _next_moment(store: RedisStore) -> datetime:
    """Return a slot above the floor that was just made, once it is due."""
    slot = (await store.active(())).time + timedelta(milliseconds=1)
    while (await store.active(())).time < slot:
        await SystemClock().sleep(0.001)
    return slot


async def test_runs_of_a_job_whose_listing_was_lost_are_still_forgotten(store, admin, due):
    old = due - timedelta(days=31)
    long_ago = Claim("a", old, "t", Mode.SCHEDULED, "w", TERMS, timedelta(days=60))
    await store.claim([long_ago])
    admin.zadd(Keys(NAMESPACE).of_job("a")[2], {str(int(old.timestamp() * 1000)): 1})
    admin.delete(Keys(NAMESPACE).jobs)

    await store.active([Registration("a", "v1")])
    await store.prune([Prune("b", 1000, timedelta(0))])

    (known,) = (await store.active([Registration("a", "v1")])).answers
    assert known.unfinished == ()


async def test_pruning_looks_at_no_job_without_old_unfinished_runs(store, admin, due):
    await store.prune([])
    admin.config_resetstat()

    await store.prune([])

    assert "cmdstat_evalsha" not in admin.info("commandstats")


async def test_a_full_server_refuses_claims_and_takes_the_end_of_a_run(store, admin, due):
    await store.claim([claim_of(due)])
    admin.config_set("maxmemory", 1)

    with pytest.raises(StoreUnavailable, match="memory"):
        await store.claim([claim_of(due, "b")])
    assert (await store.renew([Renewal("a", due, "t")])).answers == (True,)
    assert (await store.finish([Finish("a", due, "t", RunState.SUCCESS)])).answers == (True,)


async def test_a_server_that_became_a_replica_answers_no_claim(store, admin, due):
    await store.claim([claim_of(due)])
    admin.replicaof("127.0.0.1", 1)

    with pytest.raises(StoreUnavailable, match="read-only replica"):
        await store.claim([claim_of(due, token="loser")])
    with pytest.raises(StoreUnavailable, match="read-only replica"):
        await store.open()


@pytest.mark.parametrize(
    ("memory", "policy", "warnings"),
    [
        (10**9, "allkeys-lru", 1),
        (0, "allkeys-lru", 0),
        (10**9, "volatile-lru", 0),
        (10**9, "noeviction", 0),
    ],
)
async def test_a_server_that_may_delete_our_keys_is_named_once(
    server, admin, caplog, memory, policy, warnings
):
    admin.config_set("maxmemory", memory)
    admin.config_set("maxmemory-policy", policy)
    backend = RedisBackend(server.url())

    with caplog.at_level(logging.WARNING, "anarchon.backends.redis"):
        for _ in range(2):
            store = backend.connect(NAMESPACE)
            await store.open()
            await store.close()

    assert len(caplog.records) == warnings
    assert all(policy in record.getMessage() for record in caplog.records)


async def test_two_stores_of_a_backend_work_side_by_side_on_two_loops(server, admin, due):
    """The keeper has a thread of its own."""
    backend = RedisBackend(server.url())

    def elsewhere() -> Outcome:
        async def claim() -> Outcome:
            store = backend.connect(NAMESPACE)
            try:
                return await outcome_of(store, claim_of(due))
            finally:
                await store.close()

        return asyncio.run(claim())

    outcomes = await asyncio.gather(*(asyncio.to_thread(elsewhere) for _ in range(2)))

    assert outcomes == [Outcome.WON, Outcome.WON]
