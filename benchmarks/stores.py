"""The lease stores of one run: started when first asked for, stopped and removed at the end."""

from __future__ import annotations

import sqlite3
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.servers import Server, Servers, Unavailable

_SQLITE = "sqlite"
_PROGRAMS = {"redis-8.0": "redis-server", "postgres-18": "postgres"}


@dataclass(frozen=True)
class Store:
    """A store that is there; ``server`` is ``None`` for a file."""

    name: str
    version: str
    folder: Path
    server: Server | None

    def url(self, fleet: str) -> str:
        """Return the address for one fleet: of the server, or of a file for it alone."""
        if self.server is None:
            return f"sqlite:///{self.folder / fleet}.db"
        return self.server.url()

    def tool(self, program: str) -> list[str] | None:
        """Return what runs a program that came with the server, or ``None``."""
        if self.server is None:
            return None
        binaries = self.server.binaries
        there = (binaries.folder / binaries.programs / program).exists()
        return binaries.command(program) if there else None


class Stores:
    """Every lease store but memory; one that cannot be had says why."""

    names = (_SQLITE, *_PROGRAMS)

    def __init__(self) -> None:
        self._servers = Servers()
        self._folder = tempfile.TemporaryDirectory(prefix="anarchon-benchmarks-")
        self._found: dict[str, Store | str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._servers.close()
        self._folder.cleanup()

    def get(self, name: str) -> Store | None:
        """Return a running store, or ``None`` where there is a reason ``why``."""
        if name not in self._found:
            self._found[name] = self._find(name)
        found = self._found[name]
        return found if isinstance(found, Store) else None

    def private(self, name: str, options: Sequence[str]) -> Store | None:
        """Return a server of its own with further arguments of its program, or ``None``."""
        found = self._find(name, options)
        if isinstance(found, str):
            self._found[name] = found
            return None
        return found

    def why(self, name: str) -> str:
        """Say in one line why there is no such store."""
        return str(self._found[name])

    def _find(self, name: str, options: Sequence[str] = ()) -> Store | str:
        folder = Path(self._folder.name)
        if name == _SQLITE:
            return Store(name, sqlite3.sqlite_version, folder, None)
        try:
            server = self._servers.start(name, options) if options else self._servers.get(name)
        except Unavailable as error:
            return " ".join(str(error).split())
        return Store(name, _version(server, _PROGRAMS[name]), folder, server)


def _version(server: Server, program: str) -> str:
    said = subprocess.run(
        [*server.binaries.command(program), "--version"],
        env=dict(server.binaries.environment()),
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    # the first word with a digit in it: Redis writes v=8.0.2, PostgreSQL 18.1
    return next(word.removeprefix("v=") for word in said if any(c.isdigit() for c in word))
