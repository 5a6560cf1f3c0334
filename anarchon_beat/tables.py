"""Tables and JSON on standard output: colour for people, whole columns for pipes."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

#: A pipe has no width; no table is wider than this.
_PIPE_WIDTH = 10_000


def console() -> Console:
    """Return standard output; without a single escape sequence where nobody wants colour."""
    is_terminal = sys.stdout.isatty()
    plain = not is_terminal or bool(os.environ.get("NO_COLOR"))
    return Console(
        file=sys.stdout,
        force_terminal=is_terminal,
        color_system=None if plain else "auto",
        width=None if is_terminal else _PIPE_WIDTH,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], styles: Mapping[str, str]
) -> None:
    """Print a table; ``styles`` says which text of a cell has which colour."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell), style=styles.get(cell, "")) for cell in row))
    out = console()
    if out.is_terminal:
        out.print(table)
        return
    with out.capture() as captured:
        out.print(table)
    for line in captured.get().splitlines():
        print(line.rstrip())


def print_json(version: str, **fields: object) -> None:
    """Print one JSON object that says which layout it has."""
    print(json.dumps({"version": version, **fields}, indent=2))


def printable(text: str) -> str:
    """Return a text on one line, without what would move a terminal's cursor."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in _line(text))


def _line(text: str) -> str:
    return " ".join(text.split())
