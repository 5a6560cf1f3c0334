"""How to reach a SQLite file: its settings, read and checked before anything is opened."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from datetime import datetime
from urllib.parse import parse_qsl

from anarchon.backends.sqlite.database import Database, Synchronous
from anarchon.backends.sqlite.examining import examine
from anarchon.backends.sqlite.store import SQLiteStore
from anarchon.clock import SystemClock
from anarchon.errors import ConfigurationError
from anarchon.standing import Standing

_PREFIX = "sqlite:///"
_OPTIONS = ("synchronous",)
_PATHS = "write sqlite:///relative.db or sqlite:////absolute/path.db"


class SQLiteBackend:
    """A store in a SQLite file, which is made if there is none.

    ``synchronous="full"`` waits for the disk at every commit. With ``"normal"`` a claim costs
    a tenth of that, and what was committed last may be gone after a power cut (never after a
    crash of a process): a slot that ran right before it may then run again.

    ``now`` is the clock of the store, for tests.

    Raises ``ConfigurationError`` for a path or setting that cannot be used.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        synchronous: str = "full",
        now: Callable[[], datetime] | None = None,
    ) -> None:
        given = os.fspath(path)
        if given in ("", ":memory:"):
            raise ConfigurationError(
                "a database in memory is seen by one connection only, and a store needs more",
                option="store",
                fix=f"use memory:// (MemoryBackend) for one process, or {_PATHS}",
            )
        if "\0" in given:
            raise ConfigurationError("a path holds no zero byte", option="store")
        if synchronous not in tuple(Synchronous):
            raise ConfigurationError(
                f"synchronous cannot be {synchronous!r}",
                option="store",
                fix=f"use one of {', '.join(Synchronous)}",
            )
        # a later change of the working directory must not lead to another file
        self._path = os.path.abspath(given)
        self._synchronous = Synchronous(synchronous)
        self._now = now if now is not None else SystemClock().wall

    @classmethod
    def from_url(cls, url: str) -> SQLiteBackend:
        """Read a URL as SQLAlchemy does: after three slashes comes the path, as it is."""
        address, _, query = url.partition("?")
        if not address.startswith(_PREFIX):
            if address in ("sqlite:", "sqlite:/", "sqlite://"):
                return cls("")
            raise ConfigurationError("a SQLite URL names no host", option="store", fix=_PATHS)
        options = dict(parse_qsl(query, keep_blank_values=True))
        for name in options:
            if name not in _OPTIONS:
                raise ConfigurationError(
                    f"SQLite has no option {name!r}",
                    option="store",
                    fix=f"it has {', '.join(_OPTIONS)}",
                )
        synchronous = options.get("synchronous", Synchronous.FULL)
        return cls(address.removeprefix(_PREFIX), synchronous=synchronous)

    @property
    def label(self) -> str:
        return f"{_PREFIX}{self._path}"

    def __repr__(self) -> str:
        return f"<SQLiteBackend: {self._path}>"

    async def examine(self, namespace: str) -> Standing:
        return await asyncio.to_thread(examine, self._path, self.label)

    def connect(self, namespace: str) -> SQLiteStore:
        return SQLiteStore(
            Database(self._path, self.label, self._synchronous), namespace, self._now
        )
