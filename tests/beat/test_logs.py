"""A log line as one JSON object."""

import json
import logging
from typing import Any

from anarchon import Event, EventKind
from anarchon_beat.logs import JsonFormatter
from tests.beat.canned import NOW


def written(**fields: object) -> Any:
    made = logging.makeLogRecord({"name": "anarchon.scheduler", "msg": "said", **fields})
    return json.loads(JsonFormatter().format(made))


def test_what_an_event_says_is_in_fields_of_its_own() -> None:
    event = Event(EventKind.SKIP, "sync", "web-1", NOW, reason="missed", count=3)

    told = written(event=event)

    assert told["message"] == "said"
    assert {name: told[name] for name in told if name not in ("time", "level", "logger")} == {
        "message": "said",
        "event": "skip",
        "job": "sync",
        "slot": "2026-11-29T12:00:00.000Z",
        "instance": "web-1",
        "reason": "missed",
        "count": 3,
    }


def test_an_error_that_an_event_holds_is_told_as_text() -> None:
    event = Event(EventKind.ERROR, "sync", "web-1", error=ValueError("no"), detail="next in 1 s")

    told = written(event=event)

    assert (told["error"], told["detail"]) == ("ValueError('no')", "next in 1 s")


def test_a_record_of_somebody_elses_event_is_written_all_the_same() -> None:
    assert "event" not in written(event=object())
