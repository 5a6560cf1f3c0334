"""Spans of time, and which of many touch a given one, without looking at all of them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Generic, TypeVar

T = TypeVar("T")

#: Later than anything in a test, and still a moment that can be added to.
NEVER = datetime(9000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Span(Generic[T]):
    """What was there from ``start`` to ``end``, both included."""

    start: datetime
    end: datetime
    what: T


class Spans(Generic[T]):
    """Spans in the order of their starts."""

    def __init__(self, spans: Iterable[Span[T]]) -> None:
        self._spans = sorted(spans, key=lambda span: span.start)
        self._starts = [span.start for span in self._spans]
        # the span with the latest end among the first so many: where it ends too early, all do
        self._longest: list[Span[T]] = []
        for span in self._spans:
            longest = self._longest[-1] if self._longest else span
            self._longest.append(span if span.end > longest.end else longest)

    def __iter__(self) -> Iterator[Span[T]]:
        return iter(self._spans)

    def __len__(self) -> int:
        return len(self._spans)

    def touching(self, start: datetime, end: datetime) -> Iterator[Span[T]]:
        """Yield the spans that have a moment in common with this one, the latest start first."""
        for at in range(bisect_right(self._starts, end) - 1, -1, -1):
            if self._longest[at].end < start:
                return
            if self._spans[at].end >= start:
                yield self._spans[at]

    def longest_touching(self, start: datetime, end: datetime) -> Span[T] | None:
        """Return that of the spans touching this one which ends last."""
        at = bisect_right(self._starts, end) - 1
        if at < 0 or self._longest[at].end < start:
            return None
        return self._longest[at]

    def covering(self, start: datetime, end: datetime) -> Span[T] | None:
        """Return a span that began before ``start`` and goes on until ``end``."""
        at = bisect_left(self._starts, start) - 1
        if at < 0 or self._longest[at].end < end:
            return None
        return self._longest[at]

    def starting_from(self, moment: datetime) -> Iterator[Span[T]]:
        """Yield the spans that start at this moment or later, the earliest first."""
        for at in range(bisect_left(self._starts, moment), len(self._spans)):
            yield self._spans[at]


Pieces = list[tuple[datetime, datetime]]


def joined(pieces: Iterable[tuple[datetime, datetime]]) -> Pieces:
    """Join what overlaps or meets."""
    result: Pieces = []
    for start, end in sorted(pieces):
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return result


def without(start: datetime, end: datetime, taken: Pieces) -> Pieces:
    """Return what is left of a span when these joined pieces are taken out of it."""
    left: Pieces = []
    at = max(bisect_right(taken, (start, NEVER)) - 1, 0)
    while at < len(taken) and taken[at][0] < end:
        if taken[at][0] > start:
            left.append((start, taken[at][0]))
        start = max(start, taken[at][1])
        at += 1
    if start < end:
        left.append((start, end))
    return left
