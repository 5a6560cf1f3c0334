"""Tables and JSON on standard output: colour for people, whole columns for pipes."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from anarchon_beat.streams import say


def console() -> Console:
    """Return standard output; without a single escape sequence where nobody wants colour."""
    is_terminal = sys.stdout.isatty()
    plain = not is_terminal or bool(os.environ.get("NO_COLOR"))
    return Console(
        file=sys.stdout,
        force_terminal=is_terminal,
        color_system=None if plain else "auto",
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], styles: Mapping[str, str]
) -> None:
    """Print a table; ``styles`` says which text of a cell has which colour."""
    shown = [[printable(cell) for cell in row] for row in rows]
    out = console()
    if not out.is_terminal:
        say("\n".join(_plain([columns, *shown])))
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in shown:
        table.add_row(*(Text(cell, style=styles.get(cell, "")) for cell in row))
    with out.capture() as captured:
        out.print(table)
    say(captured.get().rstrip("\n"))


def _plain(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Return the lines of a table for whoever reads it column by column."""
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = zip(row, widths, strict=True)
        yield "  ".join(cell + " " * (width - cell_len(cell)) for cell, width in cells).rstrip()


def print_json(version: str, **fields: object) -> None:
    """Print one JSON object that says which layout it has."""
    say(json.dumps({"version": version, **fields}, indent=2))


def printable(text: str) -> str:
    """Return a text on one line, without what would move a terminal's cursor."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in _line(text))


def _line(text: str) -> str:
    return " ".join(text.split())
