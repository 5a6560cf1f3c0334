"""An event is one line of key=value, in an order that never changes."""

from datetime import UTC, datetime

import pytest

from anarchon.events import Event, EventKind, shown

SLOT = datetime(2026, 11, 29, 12, 0, 10, tzinfo=UTC)


def test_a_line_says_what_happened_to_which_slot_and_where() -> None:
    event = Event(EventKind.START, "sync", "web-1", slot=SLOT, attempt=1)

    assert event.line() == "start job=sync slot=2026-11-29T12:00:10.000Z attempt=1 instance=web-1"


def test_every_field_has_its_place() -> None:
    event = Event(
        EventKind.SKIP,
        "sync",
        "web-1",
        slot=SLOT,
        attempt=2,
        reason="missed",
        count=4,
        detail="d",
        error=ValueError(1),
    )

    assert event.line() == (
        "skip job=sync slot=2026-11-29T12:00:10.000Z attempt=2 instance=web-1"
        " reason=missed count=4 detail=d error=ValueError(1)"
    )


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("plain", "plain"),
        ("two words", '"two words"'),
        ('say "hi"', '"say \\"hi\\""'),
        ("a=b", '"a=b"'),
        ("back\\slash two", '"back\\\\slash two"'),
        ("line\nbreak", '"line\\nbreak"'),
        ("", '""'),
        ("näme", "näme"),
    ],
)
def test_a_value_that_would_break_the_line_is_quoted(name: str, written: str) -> None:
    line = Event(EventKind.ERROR, name, "web-1").line()

    assert line == f"error job={written} instance=web-1"
    assert "\n" not in line


def test_an_error_that_cannot_be_shown_is_named() -> None:
    class Odd(Exception):
        def __repr__(self) -> str:
            raise RuntimeError("no")

    line = Event(EventKind.FAILURE, "sync", "web-1", error=Odd()).line()

    assert "Odd that cannot be shown" in line
    assert shown(3) == "3"


def test_kinds_are_the_words_users_write() -> None:
    assert set(EventKind) == {
        "start",
        "published",
        "success",
        "failure",
        "interrupted",
        "skip",
        "takeover",
        "lease_lost",
        "handover",
        "error",
    }
