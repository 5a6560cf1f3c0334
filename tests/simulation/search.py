"""Breadth-first search of everything that can happen, for the shortest way to a broken promise."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import TypeVar

S = TypeVar("S", bound=Hashable)


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
    most: int = 2_000_000,
) -> Found:
    """Visit every state that can be reached; stop at the first in which something is broken."""
    came_from: dict[S, tuple[S, str] | None] = {start: None}
    todo = deque([start])
    while todo:
        state = todo.popleft()
        problem = broken(state)
        if problem is not None:
            return Found(len(came_from), problem, _way(came_from, state))
        if len(came_from) > most:
            raise RuntimeError(f"more than {most} states: make the model smaller")
        for label, following in steps(state):
            if following not in came_from:
                came_from[following] = (state, label)
                todo.append(following)
    return Found(len(came_from))


def _way(came_from: dict[S, tuple[S, str] | None], state: S) -> tuple[str, ...]:
    way: list[str] = []
    while (before := came_from[state]) is not None:
        state, label = before
        way.append(label)
    return tuple(reversed(way))
