"""One protection, and how to do without it."""

from dataclasses import dataclass
from pathlib import Path


class NotApplicable(Exception):
    """The text that a mutant replaces is not there exactly once: the code has moved on."""


@dataclass(frozen=True)
class Edit:
    """A replacement of a text that occurs once in a file; ``file`` counts from the project."""

    file: str
    old: str
    new: str

    def applied_to(self, text: str) -> str:
        """Return the file's text after the replacement."""
        found = text.count(self.old)
        if found != 1:
            raise NotApplicable(f"{self.file}: found {found} times, not once: {self.old!r}")
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class Mutant:
    """The project without one protection; ``name`` says which, ``tests`` who should notice.

    ``tests`` are arguments of pytest, those first that notice soonest. A protection that stands
    in two places, each enough alone, is taken out of both.
    """

    name: str
    edits: tuple[Edit, ...]
    tests: tuple[str, ...]

    def texts(self, project: Path) -> dict[str, str]:
        """Return the files that change, as they are then.

        Raises: `NotApplicable`.
        """
        changed: dict[str, str] = {}
        for edit in self.edits:
            text = changed.get(edit.file) or (project / edit.file).read_text()
            changed[edit.file] = edit.applied_to(text)
        return changed

    def infect(self, project: Path) -> None:
        """Take the protection out of the project in this folder."""
        for file, text in self.texts(project).items():
            (project / file).write_text(text)


def without(name: str, file: str, old: str, new: str, *tests: str) -> Mutant:
    """Return a mutant of one replacement."""
    return Mutant(name, (Edit(file, old, new),), tests)
