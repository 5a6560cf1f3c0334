"""A cluster whose slots move, whose nodes fail, and how many trips a batch takes there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from datetime import datetime, timedelta

import pytest
from redis import Redis
from redis.crc import key_slot

from anarchon.asking import Asking
from anarchon.backends.redis import RedisBackend, RedisStore
from anarchon.backends.redis.keys import Keys
from anarchon.clock import SystemClock
from anarchon.errors import OutcomeUnknown, StoreUnavailable
from anarchon.gathering import Answered
from anarchon.run import Overlap, RunState
from anarchon.store import (
    Claim,
    ClaimAnswer,
    Finish,
    Mode,
    Outcome,
    Prune,
    Registration,
    Release,
    Renewal,
    Terms,
)
from tests.servers import ServersForTests
from tests.servers.cluster import ClusterServer, ClusterSet
from tests.unit.redis.moves import Move

pytestmark = pytest.mark.xdist_group("a cluster that changes")

NAMESPACE = "trouble"
TERMS = Terms(timedelta(hours=1), Overlap.SKIP, 3, RunState.RUNNING)
JOBS = [f"job-{n}" for n in range(30)]
KEYS = Keys(NAMESPACE)


@pytest.fixture(scope="module")
def cluster(servers: ServersForTests) -> Iterator[ClusterSet]:
    made = ClusterSet(servers, "redis-8.0", full_coverage=False)
    yield made
    made.close()


@pytest.fixture
def admins(cluster: ClusterSet) -> Iterator[dict[ClusterServer, Redis]]:
    admins = {node: cluster.admin(node) for node in cluster.nodes}
    for admin in admins.values():
        admin.flushall()
        admin.script_flush()
    yield admins
    for admin in admins.values():
        admin.close()


@pytest.fixture
async def store(cluster: ClusterSet, admins: object) -> AsyncIterator[RedisStore]:
    store = RedisBackend(cluster.url()).connect(NAMESPACE)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def due(store: RedisStore, cluster: ClusterSet, admins: dict[ClusterServer, Redis]):
    """A slot of all jobs, due a minute ago."""
    await until_served(store)
    now = (await store.active([Registration(job, "v1") for job in JOBS])).time
    homes = cluster.homes()
    for job in JOBS:
        record = KEYS.of_job(job)[0]
        admins[homes[key_slot(record.encode())]].hset(record, "floor", 0)
    return now.replace(microsecond=0) - timedelta(minutes=1)


def claims_of(slot: datetime, jobs: Sequence[str] = JOBS, token: str = "t") -> list[Claim]:
    within = timedelta(hours=1)
    return [Claim(job, slot, token, Mode.SCHEDULED, "web-1", TERMS, within) for job in jobs]


async def outcomes(store: RedisStore, claims: Sequence[Claim]) -> set[Outcome]:
    return {answer.outcome for answer in (await store.claim(claims)).answers}


def home_of(cluster: ClusterSet, job: str) -> ClusterServer:
    return cluster.primary_of(KEYS.of_job(job)[0])


def jobs_elsewhere(cluster: ClusterSet, node: ClusterServer) -> list[str]:
    homes = cluster.homes()
    return [job for job in JOBS if homes[key_slot(KEYS.of_job(job)[0].encode())] is not node]


async def test_a_batch_is_one_trip_to_each_node(store, due, admins):
    """Counted by the servers: what they read from clients. Nodes that talk are no clients."""
    await store.claim(claims_of(due, token="first"))
    # so that this script is known everywhere too
    await store.finish([Finish(job, due, "nobody's", RunState.SUCCESS) for job in JOBS])
    before = {node: reads(admin) for node, admin in admins.items()}

    await store.claim(claims_of(due))
    await store.finish([Finish(job, due, "first", RunState.SUCCESS) for job in JOBS])

    # and the question about it
    assert [reads(admin) - before[node] for node, admin in admins.items()] == [3, 3, 3]


def reads(admin: Redis) -> int:
    return int(admin.info("stats")["total_reads_processed"])


async def test_answers_come_in_the_order_of_the_questions(store, due):
    some = JOBS[::3]
    await store.claim(claims_of(due, some))

    renewed = await store.renew([Renewal(job, due, "t") for job in JOBS])

    assert renewed.answers == tuple(job in some for job in JOBS)


async def test_each_job_lies_on_its_node_and_all_are_listed_on_one(store, due, cluster, admins):
    await store.claim(claims_of(due))

    kept = {key: node for node, admin in admins.items() for key in admin.scan_iter("*")}

    assert {node for key, node in kept.items() if key.endswith(":record")} == set(cluster.nodes)
    homes = cluster.homes()
    assert all(homes[key_slot(key.encode())] is node for key, node in kept.items())
    assert admins[kept[KEYS.jobs]].zcard(KEYS.jobs) == len(JOBS)
    assert admins[kept[KEYS.layout]].get(KEYS.layout) == "1"


async def test_nodes_that_forgot_the_scripts_are_told_them(store, due, admins):
    for admin in admins.values():
        admin.script_flush()

    assert await outcomes(store, claims_of(due)) == {Outcome.WON}


@pytest.fixture
def move(cluster: ClusterSet, admins: dict[ClusterServer, Redis], due: datetime) -> Iterator[Move]:
    move = Move(cluster, admins, KEYS.of_job(JOBS[0])[0])
    yield move
    move.back()


async def test_a_job_that_moved_is_followed(store, due, move, cluster):
    """MOVED: it did not run there, and is asked at the other node in the same call."""
    await store.claim(claims_of(due))

    move.begin()
    move.carry()
    move.end()

    assert await outcomes(store, claims_of(due, token="late")) == {Outcome.RUNNING}
    renewed = await store.renew([Renewal(job, due, "t") for job in JOBS])
    assert set(renewed.answers) == {True}
    assert home_of(cluster, JOBS[0]) is move.target


async def test_a_job_on_its_way_is_asked_where_it_is(store, due, move, admins):
    """ASK: all of it is at the other node, to which the slot does not belong yet."""
    await store.claim(claims_of(due))
    admins[move.target].script_flush()

    move.begin()
    move.carry()

    assert await outcomes(store, claims_of(due, token="late")) == {Outcome.RUNNING}
    finished = await store.finish([Finish(job, due, "t", RunState.SUCCESS) for job in JOBS])
    assert set(finished.answers) == {True}
    move.end()
    assert await outcomes(store, claims_of(due)) == {Outcome.DONE}


async def test_of_jobs_that_move_to_one_node_some_may_be_there_and_some_on_their_way(
    store, due, move, cluster, admins
):
    """MOVED and ASK to the same node: one connection carries what follows both."""
    await store.claim(claims_of(due))
    homes = cluster.homes()
    near = [job for job in JOBS if homes[key_slot(KEYS.of_job(job)[0].encode())] is move.source]
    second = Move(cluster, admins, KEYS.of_job(near[1])[0])

    for each in (move, second):
        each.begin()
        each.carry()
    move.end()

    try:
        assert await outcomes(store, claims_of(due, token="late")) == {Outcome.RUNNING}
    finally:
        second.end()
        second.back()


async def test_a_job_of_which_half_is_on_its_way_is_not_answered_for(store, due, move):
    """TRYAGAIN: nobody has all of it, and nothing was done."""
    await store.claim(claims_of(due))
    move.begin()
    move.carry(2)

    with pytest.raises(StoreUnavailable):
        await store.renew([Renewal(JOBS[0], due, "t")])

    move.carry()
    move.end()
    assert (await store.renew([Renewal(JOBS[0], due, "t")])).answers == (True,)


async def test_a_hash_slot_that_is_left_half_way_keeps_only_its_own_jobs_waiting(store, due, move):
    """TRYAGAIN also for a job that lacks one of its keys, wherever the others are."""
    move.begin()
    asking = Asking(store, SystemClock())
    asked = claimed_through(asking, claims_of(due))

    assert await all_won(asked[1:])
    assert not asked[0].done()

    move.carry()
    move.end()
    assert await all_won(asked)
    await asking.close()


async def test_jobs_that_are_asked_for_along_with_those_of_a_node_that_is_down_run(
    store, due, cluster
):
    down = home_of(cluster, JOBS[0])
    others = jobs_elsewhere(cluster, down)
    asking = Asking(store, SystemClock())
    await asking.active([])
    down.kill()
    try:
        asked = dict(zip(JOBS, claimed_through(asking, claims_of(due)), strict=True))

        assert await all_won([asked[job] for job in others])
        assert {job for job in JOBS if not asked[job].done()} == set(JOBS) - set(others)
    finally:
        down.start()
    assert await all_won(asked.values())
    await asking.close()
    await until_served(store)


def claimed_through(
    asking: Asking, claims: Sequence[Claim]
) -> list[asyncio.Task[Answered[ClaimAnswer]]]:
    return [
        asyncio.create_task(asking.claim(claim, deadline=5, give_up=lambda: False))
        for claim in claims
    ]


async def all_won(asked: Iterable[asyncio.Task[Answered[ClaimAnswer]]]) -> bool:
    async with SystemClock().timeout(20):
        answered = await asyncio.gather(*asked)
    return {each.answer.outcome for each in answered} == {Outcome.WON}


async def test_a_node_that_is_down_keeps_only_its_own_jobs_from_running(store, due, cluster):
    down = home_of(cluster, JOBS[0])
    others = jobs_elsewhere(cluster, down)
    down.kill()
    try:
        with pytest.raises((StoreUnavailable, OutcomeUnknown)):
            await store.claim(claims_of(due, [JOBS[0]]))

        assert await outcomes(store, claims_of(due, others)) == {Outcome.WON}
        # those of the other nodes were asked too
        with pytest.raises(OutcomeUnknown) as raised:
            await store.renew([Renewal(job, due, "t") for job in JOBS])
        assert raised.value.partly
    finally:
        down.start()

    await until_served(store)
    assert await outcomes(store, claims_of(due)) == {Outcome.WON}


async def test_jobs_run_while_the_node_that_lists_them_is_frozen(store, due, cluster):
    frozen = cluster.primary_of(KEYS.jobs)
    others = jobs_elsewhere(cluster, frozen)
    frozen.pause()
    try:
        for token in ("t", "another"):
            async with SystemClock().timeout(20):
                heard = await outcomes(store, claims_of(due, others, token))
            assert heard == {Outcome.WON if token == "t" else Outcome.RUNNING}
    finally:
        frozen.resume()

    await until_served(store)


async def test_what_was_not_listed_then_is_listed_by_the_next_registration(
    store, due, cluster, admins
):
    home = admins[cluster.primary_of(KEYS.jobs)]
    home.delete(KEYS.jobs)

    await store.active([Registration(job, "v1") for job in JOBS])
    await store.prune([Prune(JOBS[0], 1000, timedelta(0))])

    assert home.zcard(KEYS.jobs) == len(JOBS)


async def test_a_job_on_another_node_is_listed_with_its_claim(store, due, cluster, admins):
    listing = cluster.primary_of(KEYS.jobs)
    job = jobs_elsewhere(cluster, listing)[0]
    admins[listing].delete(KEYS.jobs)

    await store.claim(claims_of(due, [job]))

    assert admins[listing].zrange(KEYS.jobs, 0, -1) == [job]


async def test_a_frozen_node_is_given_up_at_the_callers_deadline(store, due, cluster):
    await store.claim(claims_of(due))
    frozen = home_of(cluster, JOBS[0])
    frozen.pause()
    try:
        with pytest.raises(TimeoutError):
            async with SystemClock().timeout(0.2):
                await store.claim(claims_of(due, token="lost"))
    finally:
        frozen.resume()

    await until_served(store)
    assert await outcomes(store, claims_of(due)) == {Outcome.WON}


async def test_all_nodes_may_restart_in_between(store, due, cluster, admins):
    """Who finds them anew marks their layout anew."""
    await store.claim(claims_of(due))
    home = admins[cluster.primary_of(KEYS.layout)]
    home.delete(KEYS.layout)

    for node in cluster.nodes:
        node.restart()

    await until_served(store)
    assert await outcomes(store, claims_of(due)) == {Outcome.WON}
    assert home.get(KEYS.layout) == "1"


async def test_too_few_replicas_of_one_node_leave_the_outcome_unknown(cluster, admins, due, caplog):
    """No node has one here. What is no promise waits for nobody."""
    store = RedisBackend(cluster.url(), wait_replicas=1).connect(NAMESPACE)

    with pytest.raises(OutcomeUnknown, match="only 0 of 1 replicas"):
        await store.claim(claims_of(due))
    released = await store.release([Release(job, due, "t", begun=False) for job in JOBS])
    await store.close()

    assert set(released.answers) == {True}
    warned = {r.getMessage() for r in caplog.records if "has 0 connected replicas" in r.message}
    assert len(warned) == len(cluster.nodes)


async def until_served(store: RedisStore) -> None:
    """Wait until all jobs are answered for; nodes need a moment to hear of one that is back."""
    for _ in range(600):
        try:
            await store.history(JOBS, 1)
            return
        except (StoreUnavailable, OutcomeUnknown):
            await SystemClock().sleep(0.05)
    raise AssertionError("not in time")


async def test_two_stores_work_side_by_side(cluster, store, due):
    others = [RedisBackend(cluster.url()).connect(NAMESPACE) for _ in range(3)]

    heard = await asyncio.gather(
        *(one.claim(claims_of(due, token=f"t{n}")) for n, one in enumerate([store, *others]))
    )

    for answers in zip(*(reply.answers for reply in heard), strict=True):
        assert sorted(answer.outcome for answer in answers) == ["running"] * 3 + ["won"]
    for one in others:
        await one.close()
