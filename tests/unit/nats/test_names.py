"""The names of what is kept: a renamed subject is a forgotten claim, whose slot runs again."""

from __future__ import annotations

import pytest

from anarchon.backends.nats.names import LAYOUT, Names, token_of

ODD = ["a", "A", "a.b", "a b", "*", ">", "a=2Eb", "=", "", "ñ", "日本", "🦀" * 200, "x" * 200]


def test_the_names_of_a_namespace_never_change():
    names = Names("default")

    assert LAYOUT == 1
    assert (names.claims, names.history) == ("anarchon-claims-default", "anarchon-history-default")
    assert (names.all_claims, names.all_runs) == (
        "anarchon.default.claim.*.*",
        "anarchon.default.run.*",
    )


def test_the_subjects_of_a_job_never_change():
    names = Names("default")

    assert names.claim("sync", 1795967700979) == "anarchon.default.claim.sync.1795967700979"
    assert names.runs("sync") == "anarchon.default.run.sync"


def test_the_subjects_of_odd_names_never_change():
    assert Names("a.b").runs("c d*>ñ") == "anarchon.a=2Eb.run.c=20d=2A=3E=C3=B1"
    assert token_of("é" * 200) == "=C3=A9" * 20 + "==85a1377f5179e8531eb89357c81bcd1381033011"


@pytest.mark.parametrize("name", ODD, ids=lambda name: name[:9] or "empty")
def test_a_name_is_one_token_of_a_subject_and_fits_into_a_stream_name(name):
    token = token_of(name)

    assert not set(token) & set(". *>/\\\t")
    assert token.isascii()
    assert len(Names(name).history) <= 255


def test_no_two_names_share_a_subject():
    names = [*ODD, "x" * 201, "x" * 202, "é" * 200, "é" * 199 + "e"]

    assert len({Names(space).claim(job, 0) for space in names for job in names}) == len(names) ** 2
