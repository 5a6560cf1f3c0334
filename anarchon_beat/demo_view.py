"""How the demo is shown: a live table to people, plain lines to a pipe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Protocol, Self

from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from anarchon_beat.demo_records import Record
from anarchon_beat.streams import say
from anarchon_beat.tables import console

_ROWS, _NOTES = 12, 6
#: Stay on the screen: what happens to them takes longer than the short ones need to scroll off.
_LONG_JOBS = ("report", "export")


class View(AbstractContextManager["View"], Protocol):
    """What the demo tells its audience."""

    def record(self, record: Record) -> None:
        """Show what a process wrote."""

    def note(self, text: str) -> None:
        """Say what happens, or what was seen."""

    def mark(self, process: str, state: str) -> None:
        """Show how a process stands from now on; empty for well."""


def open_view(processes: Sequence[str]) -> View:
    """Return the view that fits standard output."""
    return LiveView(processes) if console().is_terminal else PlainView()


class PlainView:
    """One line for each thing that happens."""

    def record(self, record: Record) -> None:
        """Show who won a slot; of a long run also how it goes on."""
        said = {
            "start": f"won by {record.by}" + _as_attempt(record),
            "stopped": f"given up by {record.by}: its lease lapsed",
            "end": f"ended by {record.by}",
        }.get(record.what)
        if said is not None and (record.what != "end" or record.job in _LONG_JOBS):
            say(f"{record.slot:%H:%M:%S}  {record.job:<6}  {said}")

    def note(self, text: str) -> None:
        """Print it."""
        say(f"-- {text}")

    def mark(self, process: str, state: str) -> None:
        """Say nothing: a note does."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None


class LiveView:
    """A table of who won which slot: a row a slot, a column a process."""

    def __init__(self, processes: Sequence[str]) -> None:
        self._processes = list(processes)
        self._states: dict[str, str] = dict.fromkeys(processes, "")
        self._rows: dict[tuple[int, str], dict[str, Text]] = {}
        self._notes: list[str] = []
        self._live = Live(self._drawn(), console=console(), auto_refresh=False)

    def record(self, record: Record) -> None:
        """Fill the cell of a slot and a process."""
        cell = _CELLS.get(record.what)
        if cell is None:
            return
        text, style = cell
        row = self._rows.setdefault((record.slot_millis, record.job), {})
        row[record.by] = Text(text + _as_attempt(record), style)
        self._refresh()

    def note(self, text: str) -> None:
        """Write below the table."""
        self._notes.append(text)
        self._refresh()

    def mark(self, process: str, state: str) -> None:
        """Write the state into the column's head, and into the cells of what it was running."""
        self._states[process] = state
        for row in self._rows.values():
            cell = row.get(process)
            if state and cell is not None and cell.plain.startswith(_RUNNING):
                row[process] = Text(state, "red")
        self._refresh()

    def _refresh(self) -> None:
        self._live.update(self._drawn(), refresh=True)

    def _drawn(self) -> RenderableType:
        return Group(_table(self._processes, self._states, self._rows), *self._told())

    def _told(self) -> list[Text]:
        return [Text(f"  {note}") for note in self._notes[-_NOTES:]]

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.__exit__(kind, error, trace)


_RUNNING = "running"
_CELLS = {
    "start": (_RUNNING, "yellow"),
    "end": ("won", "green"),
    "stopped": ("lost its lease", "red"),
}


def _table(
    processes: Sequence[str],
    states: Mapping[str, str],
    rows: Mapping[tuple[int, str], Mapping[str, Text]],
) -> Table:
    table = Table(title="Who won which slot", title_justify="left")
    table.add_column("slot")
    table.add_column("job", min_width=6)
    for process in processes:
        head = Text(process, "bold").append(f" {states[process]}" if states[process] else "", "red")
        table.add_column(head, min_width=16)
    short = [key for key in sorted(rows) if key[1] not in _LONG_JOBS][-_ROWS:]
    long = [key for key in sorted(rows) if key[1] in _LONG_JOBS]
    for millis, job in [*short, *long]:
        if (millis, job) in long[:1]:
            table.add_section()
        slot = f"{Record('', '', slot_millis=millis).slot:%H:%M:%S}"
        cells = rows[millis, job]
        table.add_row(slot, job, *(cells.get(process, "") for process in processes))
    return table


def _as_attempt(record: Record) -> str:
    return f", attempt {record.attempt}" if record.attempt > 1 else ""
