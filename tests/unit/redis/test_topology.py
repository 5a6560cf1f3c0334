"""Which node of a cluster is asked about which key."""

from __future__ import annotations

import pytest

from anarchon.backends.redis.keys import Keys
from anarchon.backends.redis.topology import SLOTS, Topology, address_in, slot_of

TOLD_BY = ("seed", 7000)
A, B = ("a", 1), ("b", 2)


def node(host: str | None, port: int) -> list[object]:
    return [host, port, "id", []]


@pytest.fixture
def topology() -> Topology:
    told = [
        [10, SLOTS - 1, node("b", 2), node("r", 9)],
        [0, 4, node("a", 1), node("q", 9)],
    ]
    return Topology(told, TOLD_BY)


def test_a_slot_belongs_to_the_primary_of_its_range(topology):
    found = [topology.primary_of(slot) for slot in (0, 4, 5, 9, 10, SLOTS - 1)]

    assert found == [A, A, None, None, B, B]


def test_the_slots_that_nobody_holds_are_counted(topology):
    assert topology.uncovered == 5
    assert topology.primaries == [A, B]


@pytest.mark.parametrize("slot", [0, 2, 4, 5, 7, 10, 300, SLOTS - 1])
def test_a_slot_that_moved_is_remembered_and_no_other(topology, slot):
    before = {other: topology.primary_of(other) for other in range(400)}

    topology.learn(slot, ("c", 3))

    after = {other: topology.primary_of(other) for other in before}
    assert {**before, slot: ("c", 3)} == {**after, slot: topology.primary_of(slot)}


@pytest.mark.parametrize("host", [None, "", "?"])
def test_a_node_that_does_not_know_its_host_is_where_it_was_asked(host):
    assert address_in(host, 5, TOLD_BY) == ("seed", 5)


def test_a_command_is_about_its_first_key():
    record, *others = Keys("n").of_job("ñ \udce9")

    about = slot_of(("EVALSHA", "sha", 4, record, *others, "argument"))

    assert about is not None
    assert about == slot_of(("GET", others[-1]))
    assert slot_of(("TIME",)) is None
