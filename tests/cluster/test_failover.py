"""A Redis primary dies and its replica takes over: what is lost, and what `wait_replicas` saves."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from anarchon import RunContext, Scheduler
from anarchon.backends.redis import RedisBackend
from anarchon.run import Overlap, RunState
from anarchon.store import Claim, Finish, Mode, Outcome, Registration, Renewal, Terms
from tests.cluster.failover import LONG_JOBS, Loss, Script, fail_over, until
from tests.cluster.trio import Trio
from tests.servers import Server, ServersForTests

NOT_CUT = Script(cut=0.0)
#: So long that leases lapse and are renewed while there are two primaries.
SPLIT = Script(cut=0.2, split=1.8)
JITTER = 0.6
TERMS = Terms(timedelta(minutes=5), Overlap.SKIP, 3, RunState.RUNNING)


async def losses_of(servers: ServersForTests, name: str, script: Script) -> list[Loss]:
    """Let the same happen without and with ``wait_replicas=1``, side by side."""
    with ExitStack() as stack:
        trios = [stack.enter_context(Trio(servers, name)) for _ in range(2)]
        losses = await asyncio.gather(
            *(fail_over(trio, wait, script) for wait, trio in enumerate(trios))
        )
    for wait_replicas, loss in enumerate(losses):
        print(f"{name} {script} wait_replicas={wait_replicas}: {loss}")  # noqa: T201
        # a slot that was lost is as good as new: the new primary gives it away, but once
        assert loss.most_wins_of_a_slot <= 2
        # whatever is lost, but for two primaries that grant side by side
        if wait_replicas or not script.split:
            assert_fences_grow(loss)
    return losses


def assert_fences_grow(loss: Loss) -> None:
    assert (loss.fences_twice, loss.fences_back) == (0, 0)


def assert_nothing_was_lost(loss: Loss) -> None:
    assert (loss.doubled, loss.wins_lost, loss.ends_lost, loss.overlaps) == (0, 0, 0, 0)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", ["valkey-8.0"])
async def test_slots_run_twice_after_a_lossy_failover_and_once_if_the_replica_was_waited_for(
    servers, name
):
    """G1, G2, G4, G5: the third server acknowledges after the failover, so that nothing stands."""
    unsafe, safe = await losses_of(servers, name, Script())

    assert unsafe.doubled > 10
    assert unsafe.ends_lost > 10
    assert_nothing_was_lost(safe)
    assert safe.never_won == 0
    assert safe.ends == safe.slots - len(LONG_JOBS)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", ["redis-8.0"])
async def test_a_primary_that_was_cut_off_grants_nothing_that_a_replica_must_acknowledge(
    servers, name
):
    """G1, G2, G4, G5: its holders lose their leases before the new primary gives them away."""
    unsafe, safe = await losses_of(servers, name, SPLIT)

    assert unsafe.doubled > 10
    assert unsafe.overlaps > 0
    assert_nothing_was_lost(safe)
    assert safe.never_won == 0


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", ["redis-8.0"])
async def test_the_word_of_another_replica_than_the_promoted_one_is_worth_nothing(servers, name):
    """The limit that the docs name: wait for all replicas that may be promoted."""
    with Trio(servers, name, third_replicates=True) as trio:
        loss = await fail_over(trio, 1, Script())

    print(f"{name} wait_replicas=1, another promoted: {loss}")  # noqa: T201
    assert loss.doubled > 10
    assert_fences_grow(loss)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ["redis-7.0", "redis-8.0", "valkey-8.0", "valkey-9"])
@pytest.mark.parametrize("script", [Script(), NOT_CUT, SPLIT], ids=["cut", "not-cut", "split"])
async def test_ten_failovers(servers, name, script):
    """G1, G2, G4, G5."""
    failovers = [await losses_of(servers, name, script) for _ in range(10)]
    unsafe, safe = zip(*failovers, strict=True)

    for wait_replicas, losses in enumerate((unsafe, safe)):
        sums = {
            what: sum(getattr(loss, what) for loss in losses)
            for what in ("slots", "won", "doubled", "wins_lost", "ends", "ends_lost", "overlaps")
        }
        print(f"in all: {name} {script} wait_replicas={wait_replicas}: {sums}")  # noqa: T201
    for loss in safe:
        assert_nothing_was_lost(loss)
        assert loss.never_won == 0
    if script.cut:
        assert all(loss.doubled > 10 for loss in unsafe)
    if script.split:
        assert sum(loss.overlaps for loss in unsafe) > 0


class Fleet:
    """Three schedulers in this process with many jobs of one moment, and what they started."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.started: Counter[tuple[str, datetime]] = Counter()
        self.fences: dict[str, list[int]] = {}
        self.ended: Counter[str] = Counter()

    def declare(
        self, moment: datetime, jobs: list[str], takes: float = 0, **options: Any
    ) -> list[Scheduler]:
        self._takes = takes
        schedulers = [Scheduler(self._url, name=f"web-{n}") for n in range(3)]
        for scheduler in schedulers:
            for job in jobs:
                scheduler.at(job, moment, self._work, **{"jitter": JITTER, **options})
        return schedulers

    @property
    def twice(self) -> int:
        return sum(count > 1 for count in self.started.values())

    async def _work(self, ctx: RunContext) -> None:
        self.started[ctx.job, ctx.slot] += 1
        self.fences.setdefault(ctx.job, []).append(ctx.fence)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._takes):
                await ctx.signal.wait()
        self.ended[ctx.signal.reason or "done"] += 1


@asynccontextmanager
async def running(schedulers: list[Scheduler]) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for scheduler in schedulers:
            await stack.enter_async_context(scheduler)
        yield


@pytest.mark.timeout(120)
async def test_schedulers_run_lost_slots_twice_and_acknowledged_ones_once(servers):
    """G1, G2, G5: the primary dies while some have claimed a slot and others will soon."""
    with Trio(servers, "redis-8.0") as one, Trio(servers, "redis-8.0") as other:
        unsafe, safe = await asyncio.gather(slots_by_failover(one, 0), slots_by_failover(other, 1))

    for fleet in (unsafe, safe):
        print(f"{len(fleet.started)} slots, {fleet.twice} ran twice")  # noqa: T201
        assert max(fleet.started.values()) <= 2
        assert all(sorted(set(fences)) == fences for fences in fleet.fences.values())
    assert unsafe.twice > 3
    assert safe.twice == 0


async def slots_by_failover(trio: Trio, wait_replicas: int) -> Fleet:
    """Let all jobs have their slot right when the primary dies."""
    jobs = [f"job-{n}" for n in range(30)]
    fleet = Fleet(trio.url(wait_replicas))
    moment = datetime.fromtimestamp(int(time.time()) + 2, UTC)
    async with running(fleet.declare(moment, jobs)):
        await asyncio.sleep(moment.timestamp() - time.time() - 0.1)
        await asyncio.to_thread(trio.replication.black_hole)
        await asyncio.sleep(moment.timestamp() - time.time() + JITTER / 2)
        await asyncio.to_thread(trio.fail)
        await asyncio.to_thread(trio.promote, 0)
        await until(lambda: len(fleet.started) == len(jobs))
        # whoever waited with a claim has asked again by then
        await asyncio.sleep(2 * JITTER)
    return fleet


@pytest.mark.timeout(60)
async def test_without_the_replica_the_store_is_away_and_with_it_the_slot_runs(servers, caplog):
    """A slot that nobody could be granted is run late, once, when a replica is there."""
    server = servers.start("valkey-8.0")
    fleet = Fleet(f"{server.url()}?wait_replicas=1")
    moment = datetime.fromtimestamp(int(time.time()) + 2, UTC)
    async with running(fleet.declare(moment, ["job"], jitter=0)):
        await until(lambda: "only 0 of 1 replicas acknowledged" in caplog.text)
        replica = servers.start("valkey-8.0", "--replicaof", "127.0.0.1", str(server.port))
        assert not fleet.started
        await until(lambda: bool(fleet.ended))
        await asyncio.sleep(1)
    replica.kill()
    server.kill()

    assert list(fleet.started.values()) == [1]
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    # each of the three schedulers has its backend, and tells of it once, as of the store
    assert sum("server has 0 connected replicas: nothing is granted" in w for w in warned) == 3
    assert 1 <= sum("store away" in w for w in warned) <= 3
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.soak
@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("wait_replicas", "ended"), [(0, {"lease_lost": 20, "done": 20}), (1, {"done": 20})]
)
async def test_a_runner_whose_claim_was_lost_must_end_and_the_slot_is_started_again(
    servers, wait_replicas, ended
):
    """The new primary refuses to renew what it never heard of; what was waited for it knows."""
    jobs = [f"job-{n}" for n in range(20)]
    with Trio(servers, "redis-8.0") as trio:
        fleet = Fleet(trio.url(wait_replicas))
        moment = datetime.fromtimestamp(int(time.time()) + 2, UTC)
        async with running(fleet.declare(moment, jobs, takes=6, lease=3, jitter=0.1)):
            await asyncio.sleep(moment.timestamp() - time.time() - 0.1)
            await asyncio.to_thread(trio.replication.black_hole)
            await asyncio.sleep(moment.timestamp() - time.time() + 1.2)
            await asyncio.to_thread(trio.fail)
            await asyncio.to_thread(trio.promote, 0)
            await until(lambda: fleet.ended["done"] == len(jobs))

    print(f"wait_replicas={wait_replicas}: {len(jobs)} slots, {dict(fleet.ended)}")  # noqa: T201
    assert fleet.ended == ended
    assert max(fleet.started.values()) == fleet.ended.total() / len(jobs)


@pytest.fixture
def forgetful(request: pytest.FixtureRequest, servers: ServersForTests) -> Iterator[Server]:
    server = servers.start(request.param, "--appendonly", "no")
    yield server
    server.stop()


@pytest.mark.parametrize("forgetful", ["redis-8.0", "valkey-9"], indirect=True)
async def test_a_server_without_persistence_gives_an_open_slot_away_once_more_after_a_restart(
    forgetful,
):
    """G2 fails once, as the docs say; G4 and G5 hold, and nothing that is over comes back."""
    store = RedisBackend(forgetful.url()).connect("forgetful")
    now = (await store.active([Registration("a", "v1")])).time
    slot, past = now + timedelta(milliseconds=20), now - timedelta(seconds=1)
    await asyncio.sleep(0.03)
    before = (await store.claim([claim_of(slot, "before")])).answers[0]
    await store.finish([Finish("a", slot, "before", RunState.SUCCESS)])

    await store.close()
    forgetful.kill()
    forgetful.start()
    renewed = await store.renew([Renewal("a", slot, "before")])
    finished = await store.finish([Finish("a", slot, "before", RunState.SUCCESS)])
    after, again, older, caught_up = [
        (await store.claim([claim])).answers[0]
        for claim in (
            claim_of(slot, "after"),
            claim_of(slot, "a third"),
            claim_of(past, "older"),
            claim_of(past, "caught up", Mode.CATCH_UP),
        )
    ]
    await store.close()

    assert (before.outcome, before.attempt) == (Outcome.WON, 1)
    assert (renewed.answers, finished.answers) == ((False,), (False,))
    assert (after.outcome, after.attempt) == (Outcome.WON, 1)
    assert after.fence > before.fence
    outcomes = [answer.outcome for answer in (again, older, caught_up)]
    assert outcomes == [Outcome.RUNNING, Outcome.DONE, Outcome.DONE]


@pytest.mark.parametrize("forgetful", ["redis-8.0"], indirect=True)
async def test_a_server_without_persistence_loses_no_slot_that_is_asked_for_in_time(forgetful):
    """The first claim that finds no record leaves its own slot open, though it is past."""
    store = RedisBackend(forgetful.url()).connect("forgetful")
    now = (await store.active([Registration("a", "v1")])).time

    await store.close()
    forgetful.kill()
    forgetful.start()
    slot = now - timedelta(seconds=1)
    answers = [
        (await store.claim([claim])).answers[0].outcome
        for claim in (claim_of(slot, "first"), claim_of(slot - timedelta(seconds=1), "older"))
    ]
    await store.close()

    assert answers == [Outcome.WON, Outcome.DONE]


def claim_of(slot: datetime, token: str, mode: Mode = Mode.SCHEDULED) -> Claim:
    return Claim("a", slot, token, mode, "web-1", TERMS, timedelta(minutes=1))
