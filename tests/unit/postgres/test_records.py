"""What the tables say of a run, to whoever reads them by hand."""

from __future__ import annotations

from datetime import timedelta

from anarchon.store import Outcome, Prune, Release

SECOND = timedelta(seconds=1)
LAPSE = "update anarchon.run set expires = clock_timestamp() - interval '1 second'"


async def states(database):
    rows = await database.admin.fetch(
        "select state from anarchon.run where job = 'a' order by slot"
    )
    return [row["state"] for row in rows]


async def test_a_run_that_was_released_and_then_replaced_was_interrupted(
    database, store, due, claim
):
    await claim(store, due, "t")
    await store.release([Release("a", due, "t")])

    assert (await claim(store, due + SECOND, "u")).outcome is Outcome.WON

    assert await states(database) == ["interrupted", "running"]


async def test_a_run_that_lapsed_and_was_then_replaced_was_lost(database, store, due, claim):
    await claim(store, due, "t")
    await database.admin.execute(LAPSE)

    assert (await claim(store, due + SECOND, "u")).outcome is Outcome.WON

    assert await states(database) == ["lost", "running"]


async def test_a_run_that_nobody_took_up_for_a_month_was_lost(database, store, due, claim):
    await claim(store, due, "t")
    await store.release([Release("a", due, "t")])
    await database.admin.execute("update anarchon.run set slot = slot - interval '1000 hours'")

    await store.prune([Prune("b", 10, SECOND)])

    assert await states(database) == ["lost"]


async def test_a_skipped_slot_is_marked_once(database, store, due, claim):
    await claim(store, due, "t")
    for token in "uvw":
        assert (await claim(store, due + SECOND, token)).outcome is Outcome.OVERLAP

    assert await states(database) == ["running", "skipped"]
    assert len((await store.history(["a"], 10)).answers) == 2
