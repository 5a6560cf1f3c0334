"""README and documentation as tests read them: pages, and the blocks in them.

An HTML comment right before a block says what is to be done with it: ``run`` runs a Python
snippet to its end, ``run: until "TEXT"`` runs it until it prints that and then stops it as a
user would; ``file: NAME`` is a file beside the snippets of its page that are run; ``table:
NAME``, ``options: COMMAND`` and ``rights: MODULE`` name what a table or block must agree with.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts),
    *sorted((ROOT / "examples").glob("*/README.md")),
]

_FENCE = re.compile(r"^( *)(`{3,}|:{3,})(\S*)")
_COMMENT = re.compile(r"^<!-- (\w+)(?:: (.+))? -->$")


@dataclass(frozen=True)
class Block:
    """A fenced block, or a table, with the comment right before it."""

    page: str
    line: int
    language: str
    text: str
    mark: str | None = None
    about: str | None = None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def read(path: Path) -> Iterator[Block]:
    lines = path.read_text().splitlines()
    page, number = path.relative_to(ROOT).as_posix(), 0
    mark: str | None = None
    about: str | None = None
    while number < len(lines):
        line = lines[number]
        start = number
        if comment := _COMMENT.match(line):
            mark, about = comment[1], comment[2]
        elif fence := _FENCE.match(line):
            number += 1
            while not lines[number].strip().startswith(fence[2]):
                number += 1
            text = "\n".join(row.removeprefix(fence[1]) for row in lines[start + 1 : number])
            yield Block(page, start + 1, fence[3], text, mark, about)
            mark = about = None
        elif line.startswith("|"):
            while number < len(lines) and lines[number].startswith("|"):
                number += 1
            yield Block(page, start + 1, "table", "\n".join(lines[start:number]), mark, about)
            mark = about = None
        number += 1


BLOCKS = [block for path in PAGES for block in read(path)]
SNIPPETS = [block for block in BLOCKS if block.language == "python"]


def marked(mark: str, about: str | None = None) -> list[Block]:
    return [b for b in BLOCKS if b.mark == mark and about in (None, b.about)]


def rows_of(block: Block) -> list[list[str]]:
    """Return the cells of a table's rows, without its head."""
    lines = block.text.splitlines()[2:]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in lines]


def names_in(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def table(about: str) -> dict[str, list[str]]:
    """Return the one table about something: the name in its first column, the other cells."""
    (block,) = marked("table", about)
    return {names_in(row[0])[0]: row[1:] for row in rows_of(block)}
