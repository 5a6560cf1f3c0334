"""What lies between a look and its write, and how often the server is asked."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from anarchon.backends.libsql import LibSQLStore, looks
from anarchon.backends.libsql.pipeline import Pipeline, Step
from anarchon.backends.libsql.writes import FRESH
from anarchon.errors import OutcomeUnknown, StoreUnavailable
from anarchon.run import Overlap, RunState
from anarchon.store import Finish, Mode, Outcome, Prune, Registration, Renewal
from anarchon_contract.leases.questions import DAY, JOB, MINUTE, Asker, claim_of
from tests.unit.libsql.conftest import meet

pytestmark = pytest.mark.xdist_group("sqld")

SECOND = timedelta(seconds=1)
TWO = ["looking", "writing"]


def set_clock(server, by: int) -> None:
    """Let the server's clock be off by so many milliseconds from now on."""
    server.run(
        "drop view anarchon_clock",
        "create view anarchon_clock as select"
        f" cast(round(unixepoch('subsec') * 1000) as integer) + {by} as millis",
    )


# ---------------------------------------------------------------- round trips


async def test_who_wins_asks_twice_and_who_loses_once(ask, due, flights):
    flights.clear()
    assert (await ask.claim(due, "a")).outcome is Outcome.WON
    assert flights == TWO
    flights.clear()
    assert (await ask.claim(due, "b")).outcome is Outcome.RUNNING
    assert flights == ["looking"]


async def test_a_batch_of_500_asks_as_often_as_a_single_claim(store, server, now_of_500, flights):
    jobs, now = now_of_500
    flights.clear()
    won = await store.claim([claim_of(now, "a", job=job) for job in jobs])
    assert flights == TWO
    flights.clear()
    lost = await store.claim([claim_of(now, "b", job=job) for job in jobs])
    assert flights == ["looking"]
    flights.clear()
    renewed = await store.renew([Renewal(job, now, "a") for job in jobs])
    ended = await store.finish([Finish(job, now, "a", RunState.SUCCESS) for job in jobs])
    assert flights == TWO * 2

    assert {answer.outcome for answer in won.answers} == {Outcome.WON}
    assert {answer.outcome for answer in lost.answers} == {Outcome.RUNNING}
    assert all(renewed.answers)
    assert all(ended.answers)


@pytest.fixture
async def now_of_500(store, server):
    jobs = [f"job-{number}" for number in range(500)]
    return jobs, await meet(server, store, *jobs)


async def test_a_history_and_the_time_are_told_at_once(ask, store, due, flights):
    flights.clear()
    await ask.history(JOB, "a", "b", limit=5)
    await store.active(())
    assert flights == ["looking"] * 2


async def test_pruning_that_finds_nothing_writes_nothing(store, due, flights):
    flights.clear()
    await store.prune([Prune(job, 5, DAY) for job in "abc"])
    assert "writing" not in flights


# ---------------------------------------------------------------- somebody else comes first


async def test_what_somebody_else_wrote_after_the_look_counts(
    store, ask, connect, due, flights, before_the_write
):
    """G1"""
    other = Asker(await connect())
    before_the_write(store, lambda: other.claim(due, "b"))
    flights.clear()

    answer = await ask.claim(due, "a")

    assert (answer.outcome, answer.attempt) == (Outcome.RUNNING, 1)
    # both looked and wrote, and the loser looked once more
    assert sorted(flights) == ["looking"] * 3 + ["writing"] * 2
    assert len(await ask.history()) == 1


async def test_a_record_that_somebody_else_made_after_the_look_counts(
    store, ask, connect, before_the_write
):
    other = Asker(await connect())
    before_the_write(store, lambda: other.register("v2", job="new"))

    known = await ask.register("v1", job="new")

    assert [name for name, _ in known.others] == ["v2"]


async def test_of_a_batch_only_the_job_that_somebody_else_wrote_is_asked_for_anew(
    store, ask, connect, due, flights, before_the_write
):
    other = Asker(await connect())
    before_the_write(store, lambda: other.claim(due, "x", job="b"))
    flights.clear()

    reply = await store.claim([claim_of(due, "t", job=job) for job in "abc"])

    assert [answer.outcome for answer in reply.answers] == [
        Outcome.WON,
        Outcome.RUNNING,
        Outcome.WON,
    ]
    assert len(await ask.history("a", "b", "c")) == 3


async def test_a_renewal_does_not_undo_a_takeover_that_came_before_it(
    store, ask, connect, due, server, before_the_write
):
    """G4"""
    await ask.claim(due, "a")
    other = Asker(await connect())

    async def take_over() -> None:
        server.run("update anarchon_run set expires = 0")
        assert (await other.take_over(due, "b")).outcome is Outcome.WON

    before_the_write(store, take_over)

    assert not await ask.renew(due, "a")
    assert await other.renew(due, "b")


async def test_a_job_that_was_deleted_after_the_look_is_asked_for_anew(
    store, ask, due, server, before_the_write
):
    before_the_write(
        store, lambda: server.run("delete from anarchon_job", "delete from anarchon_run")
    )

    # in time, for a job that nobody knows any more
    assert (await ask.claim(due, "a")).outcome is Outcome.WON
    assert await ask.finish(due, "a")


async def test_after_a_part_was_written_nobody_hears_that_nothing_was(
    store, ask, connect, due, before_the_write, monkeypatch
):
    other = Asker(await connect())
    before_the_write(store, lambda: other.claim(due, "x", job="b"))
    look, looked = store._session.look, []

    async def breaking(steps: Any) -> Any:
        looked.append(steps)
        if len(looked) > 1:
            raise StoreUnavailable(store.label, "gone")
        return await look(steps)

    monkeypatch.setattr(store._session, "look", breaking)

    with pytest.raises(OutcomeUnknown):
        await store.claim([claim_of(due, "t", job=job) for job in "ab"])

    monkeypatch.setattr(store._session, "look", look)
    answers = (await store.claim([claim_of(due, "t", job=job) for job in "ab"])).answers
    assert [answer.outcome for answer in answers] == [Outcome.WON, Outcome.RUNNING]


# ---------------------------------------------------------------- time goes by


async def test_a_write_that_comes_long_after_its_look_does_nothing(
    store, ask, due, server, before_the_write, flights
):
    """The slot was in time when it was looked at, and is late when it would be written."""

    before_the_write(store, lambda: set_clock(server, FRESH + 500))
    within = await ask.time() - due + SECOND
    flights.clear()

    answer = await ask.claim(due, "a", within=within)

    assert answer.outcome is Outcome.LATE
    assert flights == ["looking", "writing", "looking"]
    assert await ask.history() == ()


async def test_a_lease_that_lapsed_long_ago_is_not_renewed_by_a_look_at_it_alive(
    store, ask, due, server, before_the_write
):
    await ask.claim(due, "a", lease=SECOND)

    before_the_write(store, lambda: set_clock(server, FRESH + 1000))

    assert not await ask.renew(due, "a")


async def test_a_record_is_not_made_long_after_its_look(store, ask, server, before_the_write):
    time = await ask.time()
    before_the_write(store, lambda: set_clock(server, 60_000))

    known = await ask.register(job="new")

    assert known.first_seen - time > MINUTE - SECOND


async def test_after_a_clock_that_was_set_back_everything_is_asked_anew(
    store, ask, due, server, before_the_write
):
    before_the_write(store, lambda: set_clock(server, -3_600_000))

    assert (await ask.claim(due, "a")).outcome is Outcome.NONE
    assert await ask.history() == ()


# ---------------------------------------------------------------- rows


async def test_a_first_pruning_of_a_long_past_takes_several_calls_and_the_oldest_first(
    store, ask, due, monkeypatch
):
    monkeypatch.setattr(looks, "_PAST", _with_a_limit_of(2))
    slots = [due - count * SECOND for count in range(5, 0, -1)]
    for slot in slots:
        assert (await ask.claim(slot, "a", overlap=Overlap.ALLOW)).outcome is Outcome.WON
        assert await ask.finish(slot, "a")

    gone = [await ask.prune(keep=0) for _ in range(3)]

    assert gone == [2, 2, 1]
    for slot in slots:
        answer = await ask.claim(slot, "b", mode=Mode.CATCH_UP, within=DAY)
        assert answer.outcome is Outcome.DONE


def _with_a_limit_of(runs: int) -> str:
    before, _, _ = looks._PAST.rpartition("limit ")
    return f"{before}limit {runs}"


async def test_no_question_reads_through_a_whole_table(store, ask, server, due, monkeypatch):
    """What a claim costs must not grow with the history."""
    asked: list[Step] = []
    run = Pipeline.run

    async def noted(pipeline: Any, steps: Any, **options: Any) -> Any:
        asked.extend(
            step
            for step in steps
            if step.sql.startswith(("select", "with", "insert", "update", "delete", "replace"))
            and "false" not in step.sql
        )
        return await run(pipeline, steps, **options)

    monkeypatch.setattr(Pipeline, "run", noted)
    await ask.register()
    await store.active([Registration(JOB, "v2")])
    await ask.claim(due)
    await ask.renew(due)
    await ask.finish(due)
    await ask.history()
    await ask.prune(keep=0)
    server.run("update anarchon_fingerprint set last_seen = 0")
    await ask.register("v3")
    monkeypatch.undo()

    plans = await _plans(store, asked)

    assert len(plans) > 30
    scans = {plan for plan in plans if plan.startswith("SCAN") and "VIRTUAL TABLE" not in plan}
    # the clock has one row; the index holds what has not ended, and that is asked for as a whole
    assert scans == {
        "SCAN CONSTANT ROW",
        "SCAN anarchon_clock",
        "SCAN asked",
        "SCAN r USING INDEX anarchon_unfinished",
    }


async def _plans(store: LibSQLStore, asked: list[Step]) -> list[str]:
    steps = [Step(f"explain query plan {step.sql}", step.values) for step in asked]
    answer = await store._session._pipeline.run(steps)
    return [row[3] for rows in answer for row in rows]
