"""The names of what is kept: a renamed key is a forgotten job, whose slots run again."""

from __future__ import annotations

import pytest

from anarchon.backends.redis.keys import LAYOUT, Keys


def test_the_keys_of_a_job_never_change():
    assert LAYOUT == 1
    assert Keys("default").of_job("sync") == (
        "anarchon:{default:sync}:record",
        "anarchon:{default:sync}:runs",
        "anarchon:{default:sync}:open",
        "anarchon:{default:sync}:order",
    )


def test_the_keys_of_a_namespace_never_change():
    keys = Keys("default")

    assert (keys.layout, keys.jobs) == ("anarchon:default:layout", "anarchon:default:jobs")


def test_the_keys_of_odd_names_never_change():
    record, *_ = Keys("a:b{c}%").of_job("d:e{f}% ñ")

    assert record == "anarchon:{a%3Ab%7Bc%7D%25:d:e%7Bf%7D%25 ñ}:record"


@pytest.mark.parametrize("job", ["sync", "{", "}", "{}", "}{", "a}b", "{a}{b}", ":", "", "%7B"])
def test_all_keys_of_a_job_lie_under_one_hash_tag_of_its_own(job):
    tags = {_hash_tag(key) for key in Keys("n").of_job(job)}
    others = {_hash_tag(key) for key in Keys("n").of_job(job + "x")}

    assert len(tags) == 1
    assert tags != others


def test_no_two_names_share_a_key():
    odd = ["a", "a:", ":a", "a:b", "b", "{a", "a}", "%7Ba", "a%7D", "a%3A", ""]

    keys = [Keys(space).of_job(job)[0] for space in odd for job in odd]
    keys += [key for space in odd for key in (Keys(space).layout, Keys(space).jobs)]

    assert len(set(keys)) == len(keys)


def _hash_tag(key: str) -> str:
    """Return the part of a key that decides its slot in a cluster."""
    start = key.index("{")
    end = key.index("}", start)
    assert end > start + 1, "an empty tag is none"
    return key[start + 1 : end]
