"""The entries as others see and change them: as beat's, in ``schedule``, until we start.

Handlers of ``beat_init`` may put headers into an entry, and replace, add or remove entries.
What they leave is read once, before the first claim; later changes mean nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from celery import signals
from celery.beat import ScheduleEntry, Service

from anarchon import ConfigurationError
from anarchon_celery.beat_sender import Sender, shown_schedule
from anarchon_celery.entries import Entry, read_entries, read_entry


@dataclass(frozen=True, slots=True)
class _Shown:
    entry: Entry
    schedule: object


class BeatEntries:
    """The entries of a loaded app, shown in the ``schedule`` of a sender and read back from it."""

    def __init__(self, sender: Sender, left_out: Collection[str]) -> None:
        self.sender = sender
        entries, self._problems = read_entries(sender.app, left_out)
        self._shown = {entry.name: self._show(entry) for entry in entries}

    def _show(self, entry: Entry) -> _Shown:
        app = self.sender.app
        shown = ScheduleEntry(
            name=entry.name,
            task=entry.task,
            schedule=shown_schedule(app, entry.written, entry.schedule),
            args=list(entry.args),  # type: ignore[arg-type]  # beat makes a list of it too
            kwargs=dict(entry.kwargs),
            options=_copied(entry.options),
            last_run_at=app.now(),
            app=app,
        )
        self.sender.schedule[entry.name] = shown
        return _Shown(entry, shown.schedule)

    def read(self) -> tuple[list[Entry], list[ConfigurationError]]:
        """Return the entries as they are by now, and all that is wrong."""
        entries: list[Entry] = []
        problems = list(self._problems)
        for name, found in dict(self.sender.schedule).items():
            entry, wrong = self._read(name, found)
            problems += wrong
            if entry is not None:
                entries.append(entry)
        return entries, problems

    def _read(self, name: str, found: Any) -> tuple[Entry | None, list[ConfigurationError]]:
        shown = self._shown.get(name)
        if shown is None:
            return read_entry(self.sender.app, name, found)
        if _is_unchanged(shown, found):
            return shown.entry, []
        return read_entry(self.sender.app, name, _as_written(shown, found))


def announce(sender: Sender, *, embedded: bool = False) -> None:
    """Send `beat_init`, and for a beat inside of a worker `beat_embedded_init`, as beat would.

    What a handler raises is logged by Celery, and hurts nobody.
    """
    service = Service(sender.app, sender.max_interval, scheduler_cls=type(sender))
    # instead of one that would be made when it is first asked for
    service.__dict__["scheduler"] = sender
    signals.beat_init.send(sender=service)
    if embedded:
        signals.beat_embedded_init.send(sender=service)


def _copied(options: Mapping[str, object]) -> dict[str, object]:
    copied = dict(options)
    if isinstance(copied.get("headers"), Mapping):
        copied["headers"] = copy.deepcopy(copied["headers"])
    return copied


def _is_unchanged(shown: _Shown, found: Any) -> bool:
    entry = shown.entry
    return (
        found.schedule is shown.schedule
        and found.task == entry.task
        and found.args == list(entry.args)
        and found.kwargs == entry.kwargs
        and found.options == entry.options
    )


def _as_written(shown: _Shown, found: Any) -> dict[str, object]:
    """Return a changed entry in the words of a beat schedule."""
    is_known = found.schedule is shown.schedule
    return {
        "task": found.task,
        "schedule": shown.entry.written if is_known else found.schedule,
        "args": found.args,
        "kwargs": found.kwargs,
        "options": {"anarchon": shown.entry.ours, **found.options},
    }
