"""What a call costs the server."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta

from anarchon.backends.postgres import PostgresBackend
from anarchon.run import Overlap, RunState
from anarchon.store import Finish, Mode, Outcome, Prune, Registration, Release, Renewal, Waiting
from anarchon_contract.leases.questions import begin_of, claim_of, tracked_claim_of
from tests.unit.postgres.conftest import NAMESPACE, let_the_loop_run

SECOND = timedelta(seconds=1)


async def test_renewals_write_no_index(database, now, due):
    """Heap-only updates: the row's next version beside it, and nothing for a vacuum to do."""
    jobs = [f"job-{count}" for count in range(200)]
    store = PostgresBackend(database.url()).connect(NAMESPACE)
    await store.open()
    await store.active([Registration(job, "v1") for job in jobs])
    await database.lower_floors()
    answers = (await store.claim([claim_of(due, "t", job=job) for job in jobs])).answers
    assert {answer.outcome for answer in answers} == {Outcome.WON}

    for _ in range(50):
        renewed = await store.renew([Renewal(job, due, "t") for job in jobs])
        assert all(renewed.answers)
    # a session hands in its statistics when it ends
    await store.close()

    updates = heap_only = 0
    while updates < 50 * len(jobs):
        await let_the_loop_run()
        await database.admin.execute("select pg_stat_clear_snapshot()")
        updates, heap_only = await database.admin.fetchrow(
            "select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables where relname = 'run'"
        )
    assert heap_only / updates > 0.95


async def test_whoever_loses_writes_nothing(database, store, connect, due, claim):
    """Not even to the log: no row, no lock, no transaction id."""
    await claim(store, due, "t", "a")
    await claim(store, due, "t", "b")
    await store.finish([Finish("b", due, "t", RunState.SUCCESS)])
    await claim(store, due, "t", "c")
    await claim(store, due + SECOND, "u", "c")
    await claim(store, due, "t", "e")
    losing = [
        (claim_of(due, "other", job="a"), Outcome.RUNNING),
        (claim_of(due, "other", job="b"), Outcome.DONE),
        (claim_of(due + SECOND, "other", job="c"), Outcome.OVERLAP),
        (claim_of(due, "other", job="d", mode=Mode.TAKEOVER), Outcome.NONE),
        (claim_of(due + SECOND, "other", job="e", after=due - SECOND), Outcome.DONE),
    ]
    loser = await connect()

    # the server writes now and then for reasons of its own
    for _ in range(10):
        before = await database.admin.fetchval("select pg_current_wal_insert_lsn()::text")
        for _ in range(20):
            answers = (await loser.claim([asked for asked, _ in losing])).answers
            assert [answer.outcome for answer in answers] == [told for _, told in losing]
        written = await database.admin.fetchval(
            "select pg_current_wal_insert_lsn() - $1::text::pg_lsn", before
        )
        if not written:
            break
    assert written == 0


async def test_a_call_is_one_statement(store, due):
    asked: list[str] = []
    connection = await store._session.connect()
    connection.add_query_logger(lambda record: asked.append(record.query))
    jobs = "abcd"
    calls = (
        lambda: store.claim([claim_of(due, "t", job=job) for job in (*jobs, "new")]),
        lambda: store.renew([Renewal(job, due, "t") for job in jobs]),
        lambda: store.renew([Renewal(job, due, "t", waiting=Waiting()) for job in jobs]),
        lambda: store.begin([begin_of(due, "t", job=job) for job in jobs]),
        lambda: store.finish([Finish(job, due, "t", RunState.SUCCESS) for job in "ab"]),
        lambda: store.release([Release(job, due, "t") for job in "cd"]),
        lambda: store.active([Registration(job, "v1") for job in jobs]),
        lambda: store.history(jobs, 10),
        lambda: store.prune([Prune(job, 1, SECOND) for job in jobs]),
        lambda: store.active(()),
    )

    for call in calls:
        await call()
    await let_the_loop_run()

    assert len(asked) == len(calls), asked


async def test_rows_are_found_by_their_index_even_if_the_session_began_with_no_rows(
    database, store, now, due
):
    jobs = [f"job-{count:04}" for count in range(1000)]
    await store.active([Registration(job, "v1") for job in jobs])
    await database.lower_floors()
    await store.claim([claim_of(due, "t", job=job) for job in jobs])
    connection = await store._session.connect()
    plans: list[str] = []
    connection.add_log_listener(lambda _, message: plans.append(str(message)))
    await connection.execute(
        "load 'auto_explain'; set auto_explain.log_min_duration = 0;"
        "set auto_explain.log_analyze = on; set auto_explain.log_timing = off;"
        "set auto_explain.log_nested_statements = on; set client_min_messages = log"
    )

    tracked = [tracked_claim_of(due + SECOND, "u", job=job) for job in jobs[2:4]]
    newer = [replace(asked, terms=replace(asked.terms, overlap=Overlap.ALLOW)) for asked in tracked]
    await store.claim([claim_of(due + SECOND, "u", job=job) for job in jobs[:2]])
    await store.claim(newer)
    marks = [Renewal(job, due + SECOND, "u", waiting=Waiting()) for job in jobs[2:4]]
    assert all((await store.renew(marks)).answers)
    begins = [begin_of(due + SECOND, "u", job=job) for job in jobs[2:4]]
    assert all((await store.begin(begins)).answers)
    retries = [replace(mark, waiting=Waiting("n", 1)) for mark in marks]
    assert all((await store.renew(retries)).answers)
    await store.renew([Renewal(job, due, "t") for job in jobs[:2]])
    await store.finish([Finish(job, due, "t", RunState.SUCCESS) for job in jobs[:2]])
    await store.active([Registration(job, "v1") for job in jobs[:2]])
    await store.history(jobs[:2], 10)

    await let_the_loop_run()
    read = [int(count) for plan in plans for count in re.findall(r"actual rows=(\d+)", plan)]
    dropped = [int(count) for plan in plans for count in re.findall(r"by Filter: (\d+)", plan)]
    assert len(read) > 50
    assert max(read + dropped) < 10
    assert [plan for plan in plans if "Seq Scan" in plan] == []
