"""A job's history, as its lines leave it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from anarchon.backends.nats.records import Held, Kept, Line
from anarchon.run import Attempt, RunState

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def _opened(at: int = 0) -> Attempt:
    slot = NOON + at * SECOND
    return Attempt("sync", slot, 1, RunState.RUNNING, "web-1", 7, slot)


def _ended(at: int = 0) -> Attempt:
    return replace(_opened(at), state=RunState.SUCCESS, ended=NOON, detail="ok")


def _slots(*lines: Line) -> list[int]:
    return sorted((slot - NOON) // SECOND for slot in Kept.of(lines).attempts)


def test_an_end_takes_the_place_of_its_beginning():
    kept = Kept.of([Line(_opened()), Line(_ended(), keep=9)])

    assert list(kept.attempts.values()) == [_ended()]


def test_only_the_newest_are_kept_from_an_end_on():
    ends = Line(_ended(3), keep=2)

    assert _slots(*(Line(_opened(at)) for at in range(4)), ends) == [2, 3]
    assert _slots(*(Line(_opened(at)) for at in range(4)), ends, Line(_opened(4))) == [2, 3, 4]


def test_a_claim_that_was_asked_for_again_opens_nothing_anew():
    again = Line(_opened(), again=True)

    assert _slots(again) == [0]
    assert Kept.of([Line(_ended(), keep=9), again]).attempts[NOON].state is RunState.SUCCESS
    # nor what was not kept
    assert _slots(Line(_opened()), Line(_ended(1), keep=1), again) == [1]


@pytest.mark.parametrize(
    "line",
    [
        Line(_opened()),
        Line(_opened(), again=True),
        Line(
            replace(_ended(), detail="é \x00 \udcff", worker="w", message="m", begun=NOON), keep=3
        ),
        Line(replace(_ended(), detail="")),
    ],
    ids=["opened", "again", "full", "empty"],
)
def test_a_line_is_read_as_it_was_written(line):
    assert Line.read(line.written()) == line


def test_a_claim_is_read_as_it_was_written():
    held = Held("t", "wéb", 30 * SECOND, RunState.CLAIMED, NOON)

    assert Held.read(held.written()) == held


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"\xff", b'{"token":1}', b"null"])
@pytest.mark.parametrize("kind", [Held, Line])
def test_what_is_neither_is_refused(kind, body):
    with pytest.raises(ValueError):
        kind.read(body)
