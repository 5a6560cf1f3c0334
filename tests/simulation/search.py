"""Breadth-first search of everything that can happen, for the shortest way to a broken promise."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import TypeVar

S = TypeVar("S", bound=Hashable)

RECENT = 200_000


@dataclass(frozen=True)
class Found:
    """How many states there are, and the shortest way to a bad one if there is any."""

    states: int
    broken: str | None = None
    way: tuple[str, ...] = ()


def search(
    start: S,
    steps: Callable[[S], Iterable[tuple[str, S]]],
    broken: Callable[[S], str | None],
    key: Callable[[S], Hashable],
    most: int = 2_000_000,
) -> Found:
    """Visit every state that can be reached; stop at the first in which something is broken.

    States of one ``key`` count as one: they differ in names only, so that whatever can happen
    in one of them can happen in the other.
    """
    came_from: dict[Hashable, Hashable] = {key(start): None}
    todo = deque([start])
    lately: set[S] = set()  # most ways that meet again do so soon, and keys take long to make
    while todo:
        state = todo.popleft()
        problem = broken(state)
        if problem is not None:
            return Found(len(came_from), problem, _way(came_from, start, state, steps, key))
        if len(came_from) > most:
            raise RuntimeError(f"more than {most} states: make the model smaller")
        if len(lately) > RECENT:
            lately.clear()
        here = key(state)
        for _, following in steps(state):
            if following in lately:
                continue
            lately.add(following)
            there = key(following)
            if there not in came_from:
                came_from[there] = here
                todo.append(following)
    return Found(len(came_from))


def _way(
    came_from: dict[Hashable, Hashable],
    start: S,
    end: S,
    steps: Callable[[S], Iterable[tuple[str, S]]],
    key: Callable[[S], Hashable],
) -> tuple[str, ...]:
    """Go the way again from its start: what each step is called is kept for none of them."""
    passed = [key(end)]
    while (before := came_from[passed[-1]]) is not None:
        passed.append(before)
    state, way = start, []
    for wanted in reversed(passed[:-1]):
        label, state = next(step for step in steps(state) if key(step[1]) == wanted)
        way.append(label)
    return tuple(way)
