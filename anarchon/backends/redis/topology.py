"""Which node of a cluster holds which key."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from redis.crc import key_slot

from anarchon.backends.redis.settings import Address
from anarchon.backends.redis.wire import Command

SLOTS = 16384


class Topology:
    """The hash slots of a cluster and their primaries, as one node told."""

    def __init__(self, told: Sequence[Any], told_by: Address) -> None:
        """Read the answer to ``CLUSTER SLOTS``."""
        ranges = sorted(
            (int(first), int(last), address_in(node[0], node[1], told_by))
            for first, last, node, *_ in told
        )
        self._ranges = ranges
        self._firsts = [first for first, _, _ in ranges]

    @property
    def primaries(self) -> Sequence[Address]:
        return list(dict.fromkeys(address for _, _, address in self._ranges))

    @property
    def uncovered(self) -> int:
        """How many slots nobody holds, so that their jobs cannot run."""
        return SLOTS - sum(last - first + 1 for first, last, _ in self._ranges)

    def primary_of(self, slot: int) -> Address | None:
        at = bisect_right(self._firsts, slot) - 1
        if at < 0 or self._ranges[at][1] < slot:
            return None
        return self._ranges[at][2]

    def learn(self, slot: int, address: Address) -> None:
        """Take in that a slot has moved."""
        at = bisect_right(self._firsts, slot) - 1
        split = []
        if at >= 0 and self._ranges[at][1] >= slot:
            first, last, former = self._ranges.pop(at)
            split = [(first, slot - 1, former), (slot + 1, last, former)]
        moved = [each for each in split if each[0] <= each[1]]
        self._ranges = sorted([*self._ranges, *moved, (slot, slot, address)])
        self._firsts = [first for first, _, _ in self._ranges]


def slot_of(command: Command) -> int | None:
    """Return the hash slot that a command is about; none if it is about no key."""
    if command[0] == "EVALSHA":
        key = command[3]
    elif len(command) > 1:
        key = command[1]
    else:
        return None
    return key_slot(str(key).encode("utf-8", "surrogatepass"))


def address_in(host: str | None, port: int, told_by: Address) -> Address:
    """Return the address of a node; one that does not know its own is told by itself."""
    return (told_by[0] if host in (None, "", "?") else host), int(port)
