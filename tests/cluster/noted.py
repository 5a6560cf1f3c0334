"""What the work wrote down, read as evidence."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from anarchon.testing.evidence import Body, Fault, Trouble
from tests.cluster.true_time import moment

Note = Mapping[str, Any]


class Notes:
    """The file that all the work of a cluster writes to."""

    def __init__(self, file: Path) -> None:
        self.file = file
        file.touch()

    def read(self) -> list[Note]:
        return [json.loads(line) for line in self.file.read_text().splitlines()]

    def unread_messages(self) -> set[str]:
        """Return the messages that were sent and that no worker has run."""
        notes = self.read()
        sent = {note["message"] for note in notes if note["what"] == "sent"}
        return sent - {note["message"] for note in notes if note["what"] == "message"}


def bodies_of(notes: Iterable[Note]) -> list[Body]:
    """Return each start of work that was noted, in the order of their starts."""
    bodies: dict[tuple[object, ...], Body] = {}
    for note in notes:
        if note["what"] == "message":
            sent = moment(note["sent"])
            bodies["message", note["message"], note["at"]] = _body(note, sent, sent)
        elif note["what"] == "began":
            bodies[_key(note)] = _body(note, moment(note["at"]), None)
        elif note["what"] == "ended":
            began = bodies[_key(note)]
            bodies[_key(note)] = _body(
                note, began.started, moment(note["at"]), failed=note["failed"]
            )
    return sorted(bodies.values(), key=lambda body: body.started)


def stalls_of(notes: Iterable[Note]) -> list[Trouble]:
    """Return when instances did not get to run; that it was the machine makes no difference."""
    return [
        Trouble(Fault.FROZEN, moment(note["since"]), moment(note["at"]), note["by"])
        for note in notes
        if note["what"] == "stalled"
    ]


def first_words(notes: Sequence[Note]) -> dict[str, datetime]:
    """Return when each instance first let somebody know of it."""
    words: dict[str, datetime] = {}
    for note in notes:
        at = moment(note["sent"] if note["what"] == "message" else note["at"])
        words[note["by"]] = min(words.get(note["by"], at), at)
    return words


def _key(note: Note) -> tuple[object, ...]:
    return "inline", note["job"], note["slot"], note["attempt"], note["fence"], note["by"]


def _body(note: Note, started: datetime, ended: datetime | None, *, failed: bool = False) -> Body:
    return Body(
        job=note["job"],
        slot=datetime.fromisoformat(note["slot"]),
        attempt=note["attempt"],
        fence=note["fence"],
        instance=note["by"],
        started=started,
        ended=ended,
        failed=failed,
    )
