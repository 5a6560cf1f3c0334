"""Names are whatever users write."""

from __future__ import annotations

import pytest

from anarchon.run import RunState
from anarchon.store import Outcome, Prune
from anarchon_contract.leases.questions import Asker

ODD = {
    "unicode": "ñandú-Ωμέγα-日本-🦀",
    "quotes": """it's "so" `odd` \\'; drop table x; --""",
    "spaces": "  two  spaces\tand a tab ",
    "newline": "one\ntwo",
    "braces": "{job}:{0}:{}",
    "brackets": "[1]*?^$%_%%s:1",
    "colons": ":a::b:",
    "digits": "0",
    "long": "x" * 200,
    "long unicode": "é" * 200,
}


@pytest.mark.parametrize("name", ODD.values(), ids=ODD)
async def test_a_job_of_any_name_runs_and_is_told_by_its_name(ask, meet, harness, due, name):
    await meet(name)
    won = await ask.claim(due, name, job=name, instance=name)
    await harness.lapse(name, due)
    taken = await ask.take_over(due, "b", job=name, instance=name)
    await ask.renew(due, "b", job=name)
    await ask.finish(due, "b", RunState.FAILED, name, job=name)

    second, first = await ask.history(name)

    assert (won.outcome, won.holder) == (Outcome.WON, name)
    assert (taken.outcome, taken.attempt) == (Outcome.WON, 2)
    assert (first.job, first.instance, first.state) == (name, name, RunState.LOST)
    assert (second.job, second.detail, second.state) == (name, name, RunState.FAILED)


async def test_jobs_whose_names_look_alike_are_kept_apart(ask, store, meet, due):
    names = ["a", "A", "a ", " a", "a:", "á", "a\u0301", *ODD.values()]
    await meet(*names)
    for name in names:
        assert (await ask.claim(due, name, job=name, instance=name)).outcome is Outcome.WON
    for name in names:
        assert await ask.finish(due, name, job=name, detail=name)

    history = await ask.history(*names)

    assert {attempt.job: attempt.detail for attempt in history} == {name: name for name in names}
    reply = await store.prune([Prune(name, 0, due - due) for name in names])
    assert reply.answers == (1,) * len(names)


@pytest.mark.parametrize("name", ODD.values(), ids=ODD)
async def test_fingerprints_are_any_text(ask, name):
    await ask.register("v1")
    first = await ask.register(name)

    known = await ask.register("v1")

    assert [fingerprint for fingerprint, _ in known.others] == [name]
    assert (await ask.register(name)).first_seen == first.first_seen


@pytest.mark.parametrize("name", ODD.values(), ids=ODD)
async def test_namespaces_of_any_name_never_meet(connect, ask, due, name):
    other = Asker(await connect(name))
    await ask.claim(due, "a")

    assert await other.history() == ()
    assert (await other.register()).unfinished == ()
    assert not await other.finish(due, "a")
    # met first there, so it has nothing to catch up
    assert (await other.claim(due, "b")).outcome is Outcome.DONE
    assert await other.prune(keep=0) == 0
    assert await ask.renew(due, "a")


async def test_namespaces_whose_names_run_into_the_job_are_kept_apart(connect, now):
    one, two = Asker(await connect("x:y")), Asker(await connect("x"))

    await one.register("v1", job="z")

    assert (await two.register("v2", job="y:z")).others == ()
    assert (await two.register("v2", job="z")).others == ()
    assert [name for name, _ in (await one.register("v3", job="z")).others] == ["v1"]
