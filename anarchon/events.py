"""What happened to a slot on this instance: one value an event, told to logs and callbacks.

An event says what one instance did or saw, not the fate of the slot: of three instances one
starts a run and two skip the slot as taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from anarchon.clock import rfc3339


class EventKind(StrEnum):
    """What an event is about."""

    START = "start"
    PUBLISHED = "published"
    SUCCESS = "success"
    FAILURE = "failure"
    INTERRUPTED = "interrupted"
    SKIP = "skip"
    TAKEOVER = "takeover"
    LEASE_LOST = "lease_lost"
    HANDOVER = "handover"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened to a slot here.

    ``reason`` of a skip is ``taken``, ``overlap``, ``late`` or ``missed``; ``count`` is how many
    slots a ``missed`` stands for. ``detail`` is what a success returned, a message's id, or what
    happens next; ``error`` is the exception, where there is one.
    """

    kind: EventKind
    job: str
    instance: str
    slot: datetime | None = None
    attempt: int | None = None
    reason: str | None = None
    count: int | None = None
    detail: str | None = None
    error: BaseException | None = None

    def fields(self) -> dict[str, object]:
        """Return what the event says besides its kind, in an order that never changes."""
        said = {
            "job": self.job,
            "slot": rfc3339(self.slot) if self.slot is not None else None,
            "attempt": self.attempt,
            "instance": self.instance,
            "reason": self.reason,
            "count": self.count,
            "detail": self.detail,
            "error": shown(self.error) if self.error is not None else None,
        }
        return {name: value for name, value in said.items() if value is not None}

    def line(self) -> str:
        """Return the event as one line of ``key=value``."""
        said = " ".join(f"{name}={_quoted(value)}" for name, value in self.fields().items())
        return f"{self.kind} {said}"


def shown(value: object) -> str:
    """Return a user's value as it reads, even where its own ``repr`` fails."""
    try:
        return repr(value)
    except (Exception, SystemExit):
        return f"<{type(value).__qualname__} that cannot be shown>"


def _quoted(value: object) -> str:
    text = str(value)
    if text and not any(c.isspace() or c in '"=' for c in text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
