"""The rows of the one table, and how it looks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_HEAD = ("figure", "measured", "limit or peer, same run", "ratio", "goal", "met")
_FOOT = "ratio: what was measured, divided by the limit or peer beside it"


@dataclass(frozen=True)
class Peer:
    """What a figure is held against, measured in the same run; ``ratio`` is ours to its."""

    name: str
    measured: str
    ratio: float | None = None


@dataclass(frozen=True)
class Row:
    """One figure; ``met`` is ``None`` where there is no goal."""

    figure: str
    measured: str
    peers: Sequence[Peer] = ()
    goal: str = ""
    met: bool | None = None


def skipped(figure: str, reason: str) -> Row:
    """Return the row of a figure that could not be measured."""
    return Row(figure, f"skipped: {reason}")


def render(rows: Iterable[Row]) -> str:
    """Return the table as text, each column as wide as it must be."""
    lines = [_HEAD, *(line for row in rows for line in _lines(row))]
    # why something was skipped may be long, and stands alone in its line
    widths = [
        max(len(line[column]) for line in lines if any(line[2:]) or not column)
        for column in range(len(_HEAD))
    ]
    rule = tuple("-" * width for width in widths)
    shown = ("  ".join(map(str.ljust, line, widths)).rstrip() for line in (_HEAD, rule, *lines[1:]))
    return "\n".join([*shown, "", _FOOT])


def _lines(row: Row) -> list[tuple[str, ...]]:
    met = {None: "", True: "yes", False: "NO"}[row.met]
    peers = [
        (f"{peer.name}: {peer.measured}", "" if peer.ratio is None else f"{peer.ratio:.3g}")
        for peer in row.peers
    ] or [("", "")]
    first, *others = peers
    return [
        (row.figure, row.measured, *first, row.goal, met),
        *(("", "", *other, "", "") for other in others),
    ]
