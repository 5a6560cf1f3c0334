"""Names are whatever users write: any printable text of up to 200 characters."""

from __future__ import annotations

import pytest

from anarchon.store import Outcome
from anarchon_contract.claims.harness import Feature
from anarchon_contract.claims.questions import Asker, ended
from anarchon_contract.needing import needs

ODD = {
    "unicode": "ñandú-Ωμέγα-日本-🦀",
    "quotes": """it's "so" `odd` \\'; drop table x; --""",
    "spaces": "  two  spaces ",
    "braces": "{job}:{0}:{}",
    "brackets": "[1]*?^$%_%%s:1",
    "colons": ":a::b:",
    "dots": "a..b.c.",
    "a dot": ".",
    "wildcards": "*.>.#.?",
    "slashes": "/a//b\\c/",
    "digits": "0",
    "percent": "%20%2e",
    "long": "x" * 200,
    "long unicode": "🦀" * 200,
}
ALIKE = ["a", "A", "a ", " a", "a:", "a.", "a*", "a.b", "a_b", "a b", "á", "a\u0301", "%61"]

every = pytest.mark.parametrize("name", ODD.values(), ids=ODD)


@every
async def test_a_job_of_any_name_is_claimed(ask, due, name):
    won = await ask.claim(due, "a", job=name, instance=name)
    again = await ask.claim(due, "a", job=name, instance=name)
    lost = await ask.claim(due, "b", job=name)

    assert (won.outcome, won.holder) == (Outcome.WON, name)
    assert again == won
    assert lost.outcome is Outcome.DONE


@every
@needs(Feature.HOLDER)
async def test_an_instance_of_any_name_is_told(ask, due, name):
    await ask.claim(due, "a", instance=name)

    assert (await ask.claim(due, "b")).holder == name


@every
@needs(Feature.HISTORY)
async def test_a_job_of_any_name_is_told_by_its_name(ask, due, name):
    await ask.claim(due, "a", job=name, instance=name)
    attempt = ended(due, detail=name, job=name, instance=name)
    await ask.save(attempt)

    assert await ask.history(name) == (attempt,)


async def test_jobs_whose_names_look_alike_are_kept_apart(ask, due):
    names = [*ALIKE, *ODD.values()]
    for name in names:
        assert (await ask.claim(due, f"t {name}", job=name)).outcome is Outcome.WON

    for name in names:
        assert (await ask.claim(due, "other", job=name)).outcome is Outcome.DONE


@every
async def test_namespaces_of_any_name_never_meet(connect, ask, due, name):
    other = Asker(await connect(f"claims{name}"[:200]))
    await ask.claim(due, "a")

    assert (await other.claim(due, "b")).outcome is Outcome.WON
    assert (await ask.claim(due, "b")).outcome is Outcome.DONE


@needs(Feature.HISTORY)
async def test_namespaces_have_a_history_each(connect, ask, due):
    other = Asker(await connect("claims of others"))
    await ask.claim(due, "a", instance="ours")
    await other.claim(due, "b", instance="theirs")

    await other.save(ended(due, instance="theirs"))

    (attempt,) = await ask.history()
    assert (attempt.instance, attempt.ended) == ("ours", None)
    assert await other.history() == (ended(due, instance="theirs"),)


@pytest.mark.parametrize("dividing", list(":./ -_"))
async def test_namespaces_whose_names_run_into_the_job_are_kept_apart(connect, due, dividing):
    one = Asker(await connect(f"claims{dividing}y"))
    two = Asker(await connect("claims"))

    heard = [
        (await one.claim(due, "a", job="z")).outcome,
        (await two.claim(due, "b", job=f"y{dividing}z")).outcome,
        (await two.claim(due, "c", job="z")).outcome,
    ]

    assert heard == [Outcome.WON] * 3
