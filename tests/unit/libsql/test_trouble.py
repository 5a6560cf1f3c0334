"""A server that dies, freezes, forgets or is cut off, and what is left of a call."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from anarchon.backends.libsql import LibSQLStore, schema
from anarchon.backends.libsql.faults import Answered, StepFailed
from anarchon.backends.libsql.pipeline import Pipeline
from anarchon.clock import SystemClock
from anarchon.errors import OutcomeUnknown, StoreError, StoreRefused, StoreUnavailable
from anarchon.run import RunState
from anarchon.store import Mode, Outcome
from anarchon_contract.giving_up import let_others_go
from anarchon_contract.leases.questions import DAY, Asker, claim_of
from tests.servers import ServersForTests
from tests.servers.sqld import SqldServer
from tests.unit.libsql.conftest import Connect, url_of

pytestmark = pytest.mark.xdist_group("sqld")

CLOCK = SystemClock()
ROUND_TRIP = 0.2

T = TypeVar("T")


@pytest.fixture
async def cut_off(connect: Connect, way) -> LibSQLStore:
    """A store that is reached by a way that can be cut."""
    return await connect(url_of(way))


async def answered(call: Callable[[], Awaitable[T]]) -> T:
    """Ask again until the store answers, as whoever was told to come again."""
    while True:
        try:
            return await call()
        except StoreUnavailable:
            await let_others_go()


async def shown(ask: Asker) -> None:
    """Wait until the history shows an attempt."""
    while not await ask.history():
        await let_others_go()


# ---------------------------------------------------------------- connections


async def test_a_claim_whose_answer_is_lost_is_won_when_it_is_asked_again(
    before_the_write, cut_off, ask, way, due
):
    """G1"""
    # the write goes through, and its answer meets a reset
    before_the_write(cut_off, lambda: way.slow(0.3))
    call = asyncio.ensure_future(cut_off.claim([claim_of(due, "a")]))
    await shown(ask)
    way.reset()
    with pytest.raises(OutcomeUnknown):
        await call
    way.heal()

    other = await ask.claim(due, "b")
    again = await Asker(cut_off).claim(due, "a")

    assert other.outcome is Outcome.RUNNING
    assert (again.outcome, again.attempt, again.fence) == (Outcome.WON, 1, other.fence)
    assert len(await ask.history()) == 1


async def test_a_claim_that_is_cut_before_its_write_did_not_happen(
    before_the_write, cut_off, ask, way, due
):
    before_the_write(cut_off, way.cut)

    with pytest.raises(StoreError):
        await cut_off.claim([claim_of(due, "a")])

    way.heal()
    assert await ask.history() == ()
    assert (await Asker(cut_off).claim(due, "a")).outcome is Outcome.WON


async def test_a_look_that_is_cut_is_made_once_more(cut_off, way, due):
    """The connection may have ended long before, unheard of."""
    way.slow(0.3)
    call = asyncio.ensure_future(cut_off.claim([claim_of(due, "a")]))
    await CLOCK.sleep(0.1)
    way.reset()
    way.heal()

    assert (await call).answers[0].outcome is Outcome.WON


async def test_a_look_that_cannot_be_made_did_not_happen_for_certain(cut_off, way, due):
    way.cut()

    with pytest.raises(StoreUnavailable):
        await cut_off.claim([claim_of(due, "a")])

    way.heal()
    assert (await Asker(cut_off).claim(due, "a")).outcome is Outcome.WON


async def test_a_call_through_a_black_hole_ends_at_its_deadline_and_the_job_goes_on(
    cut_off, ask, way, due
):
    assert (await Asker(cut_off).claim(due, "a")).outcome is Outcome.WON
    way.black_hole()
    # on the connection there is, and where it has to be made first
    for _ in range(3):
        with pytest.raises(TimeoutError):
            async with CLOCK.timeout(0.2):
                await Asker(cut_off).renew(due, "a")
    way.heal()

    assert await answered(lambda: Asker(cut_off).renew(due, "a"))
    assert await ask.finish(due, "a")


async def test_a_write_into_a_black_hole_comes_late_and_harms_nobody(
    before_the_write, cut_off, ask, way, due
):
    """G1, G4: what the hole kept arrives when others have long decided."""
    before_the_write(cut_off, way.black_hole)
    with pytest.raises(TimeoutError):
        async with CLOCK.timeout(0.2):
            await cut_off.claim([claim_of(due, "a")])
    assert (await ask.claim(due, "b")).outcome is Outcome.WON
    way.heal()

    late = await answered(lambda: Asker(cut_off).claim(due, "a"))
    assert late.outcome is Outcome.RUNNING
    assert await ask.renew(due, "b")
    assert len(await ask.history()) == 1


@pytest.mark.parametrize(
    "round_trips", [2.5, 3.5], ids=["not for connecting", "for connecting, but not for asking too"]
)
async def test_calls_without_the_time_to_connect_are_answered_in_the_end(
    cut_off, way, monkeypatch, round_trips
):
    """Or a keeper on a slow network would never renew again once it lost its connection."""
    bring = schema.bring_up_to_date

    async def as_over_tls(*asked):
        # two more round trips than a proxy on this machine takes
        await CLOCK.sleep(2 * ROUND_TRIP)
        await bring(*asked)

    monkeypatch.setattr(schema, "bring_up_to_date", as_over_tls)
    way.black_hole()
    assert not await in_time(cut_off, 0.05)
    way.slow(ROUND_TRIP / 2)

    heard: list[bool] = []
    while not any(heard) and len(heard) < 8:
        heard.append(await in_time(cut_off, round_trips * ROUND_TRIP))
        await CLOCK.sleep(round_trips * ROUND_TRIP / 3)
    way.heal()

    assert heard[-1], "never"
    assert not heard[0], "the deadline was no obstacle"


async def in_time(store: LibSQLStore, seconds: float) -> bool:
    """Tell whether a call was answered before a deadline, as the engine gives one to each."""
    try:
        async with CLOCK.timeout(seconds):
            await store.active(())
    except (TimeoutError, StoreUnavailable):
        return False
    return True


async def test_closing_while_a_connection_is_made_leaves_no_task(cut_off, way):
    before = asyncio.all_tasks()
    way.reset()
    await let_others_go()
    way.black_hole()
    with pytest.raises((TimeoutError, StoreUnavailable)):
        async with CLOCK.timeout(0.1):
            await cut_off.active(())

    await cut_off.close()

    assert asyncio.all_tasks() <= before
    way.heal()


# ---------------------------------------------------------------- the server


@pytest.fixture
def own(servers: ServersForTests):
    """A server that a test may kill."""
    server = servers.start("sqld")
    assert isinstance(server, SqldServer)
    yield server
    server.resume()
    server.stop()


@pytest.fixture
async def asked(own: SqldServer, connect: Connect) -> Asker:
    return Asker(await connect(own.url()))


@pytest.fixture
async def slot(own: SqldServer, asked: Asker):
    """A slot that is due, of a job known for long."""
    await asked.register()
    own.run("update anarchon_job set floor = 0, newest = 0")
    return await asked.time()


async def test_what_a_killed_server_acknowledged_is_there_again(own, asked, slot):
    """G2"""
    won = await asked.claim(slot, "a", lease=DAY)
    own.kill()
    with pytest.raises(StoreUnavailable):
        await asked.claim(slot, "a")

    own.start()

    assert (await asked.claim(slot, "b")).outcome is Outcome.RUNNING
    assert (await asked.claim(slot, "a")).fence == won.fence
    assert await asked.finish(slot, "a", RunState.SUCCESS)
    own.kill()
    own.start()
    assert (await asked.claim(slot, "b", within=DAY)).outcome is Outcome.DONE
    assert [attempt.state for attempt in await asked.history()] == [RunState.SUCCESS]


async def test_a_server_that_is_killed_over_and_over_gives_no_slot_twice(own, asked, connect, slot):
    """G1"""
    others = [asked, *[Asker(await connect(own.url())) for _ in range(3)]]
    wins: list[list[int]] = [[] for _ in others]
    ended = asyncio.Event()

    async def contend(number: int, one: Asker) -> None:
        count = 0
        while not ended.is_set():
            at, token = slot.replace(microsecond=1000 * (count % 1000)), f"{number} {count}"
            try:
                while True:
                    try:
                        answer = await one.claim(at, token, job=f"job-{count // 1000}", within=DAY)
                        break
                    except OutcomeUnknown:
                        await CLOCK.sleep(0.01)
                if answer.outcome is Outcome.WON:
                    wins[number].append(count)
                count += 1
            except StoreUnavailable:
                await CLOCK.sleep(0.01)

    async def kill() -> None:
        for _ in range(4):
            await CLOCK.sleep(0.3)
            await asyncio.to_thread(own.kill)
            await asyncio.to_thread(own.start)
        await CLOCK.sleep(0.3)
        ended.set()

    async with asyncio.TaskGroup() as group:
        for number, one in enumerate(others):
            group.create_task(contend(number, one))
        group.create_task(kill())

    won = [count for counts in wins for count in counts]
    assert won
    assert len(won) == len(set(won))


async def test_a_restart_between_two_calls_is_not_noticed(own, asked, slot):
    await asked.claim(slot, "a")

    own.restart()
    await let_others_go()

    assert await asked.renew(slot, "a")


async def test_a_frozen_server_answers_nobody_late(own, asked, slot):
    own.pause()
    for _ in range(2):
        with pytest.raises(TimeoutError):
            async with CLOCK.timeout(0.2):
                await asked.claim(slot, "a")
    own.resume()

    assert (await answered(lambda: asked.claim(slot, "a"))).outcome is Outcome.WON
    assert len(await asked.history()) == 1


async def test_a_server_that_lost_its_data_is_as_a_new_one(own, asked, slot):
    """Its tables are made anew, and there is nothing to catch up."""
    first = await asked.claim(slot, "a")
    own.stop()
    shutil.rmtree(own.folder / "data")
    own.start()

    assert not await answered(lambda: asked.renew(slot, "a"))
    assert (await asked.claim(slot, "a", mode=Mode.CATCH_UP)).outcome is Outcome.DONE
    # in time, for a job that nobody knows any more
    late = await asked.claim(await asked.time(), "a", job="other")
    assert late.outcome is Outcome.WON
    assert late.fence > first.fence


async def test_tables_that_are_dropped_under_our_feet_are_made_anew(server, ask, due):
    await ask.claim(due, "a")
    server.wipe()

    with pytest.raises(StoreUnavailable):
        await ask.renew(due, "a")

    assert not await ask.renew(due, "a")
    assert (await ask.claim(await ask.time(), "b")).outcome is Outcome.WON


@pytest.mark.parametrize(
    ("at", "code", "kind"),
    [
        (0, "SQLITE_BUSY", StoreUnavailable),
        (1, "SQLITE_FULL", StoreUnavailable),
        (1, "TRANSACTION_TIMEOUT", StoreUnavailable),
        (1, "SQLITE_READONLY", StoreRefused),
        (1, "SQLITE_CONSTRAINT", StoreError),
        (-2, "SQLITE_IOERR", OutcomeUnknown),
    ],
)
async def test_a_write_that_the_server_refuses_is_told_for_what_it_is(
    store, due, monkeypatch, at, code, kind
):
    """All is undone until the commit; where that fails, nobody knows."""
    run = Pipeline.run

    async def refusing(pipeline, steps, *, writes=False):
        if writes:
            raise StepFailed(store.label, range(len(steps))[at], "no", code)
        return await run(pipeline, steps)

    monkeypatch.setattr(Pipeline, "run", refusing)

    with pytest.raises(StoreError) as raised:
        await store.claim([claim_of(due, "a")])

    assert type(raised.value) is kind


async def test_a_batch_that_a_replica_lost_on_its_way_may_have_happened(
    store, due, before_the_write, monkeypatch
):
    body = {"results": [{"type": "error", "error": {"message": "lost", "code": "PROXY_ERROR"}}]}

    def lose() -> None:
        monkeypatch.setattr(
            "anarchon.backends.libsql.pipeline.Answered",
            lambda label, writes, *_: Answered(label, writes, 200, json.dumps(body).encode()),
        )

    before_the_write(store, lose)

    with pytest.raises(OutcomeUnknown):
        await store.claim([claim_of(due, "a")])
