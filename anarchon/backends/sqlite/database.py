"""The connection to the file: opening it, transactions, and what its errors mean."""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum

from anarchon.backends.sqlite.schema import migrate
from anarchon.errors import OutcomeUnknown, StoreError, StoreRefused, StoreUnavailable

log = logging.getLogger("anarchon.store")

#: How long a call waits for the others, in seconds: well under the usual heartbeat, since what
#: waits behind it may be a renewal.
PATIENCE = 1.0
_TURNS = 100

#: What may be otherwise when asked again; the rest is wrong with the file or the question.
_PASSING = {
    sqlite3.SQLITE_PERM: "access is denied",
    sqlite3.SQLITE_BUSY: f"locked by somebody else for more than {PATIENCE:.0f} s",
    sqlite3.SQLITE_LOCKED: f"locked by somebody else for more than {PATIENCE:.0f} s",
    sqlite3.SQLITE_NOMEM: "out of memory",
    sqlite3.SQLITE_READONLY: "the file, its folder or its disk is read-only",
    sqlite3.SQLITE_INTERRUPT: "interrupted",
    sqlite3.SQLITE_IOERR: "the disk cannot be read or written",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened or made",
    sqlite3.SQLITE_PROTOCOL: "somebody else holds its locks for too long",
}
#: Those of them that last until somebody mends the path or its rights.
_LASTING = (sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)


class Synchronous(StrEnum):
    """When a commit counts as done."""

    FULL = "full"
    """When it is on the disk."""
    NORMAL = "normal"
    """When the operating system has it."""


class Database:
    """One connection to the file, used by one thread.

    It connects when it has to, and is let go of after an error other than a lock.
    """

    def __init__(self, path: str, label: str, synchronous: Synchronous) -> None:
        self.label = label
        self._path = path
        self._synchronous = synchronous
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None

    def open(self) -> None:
        """Connect, and bring the tables to this version."""
        with self._translating():
            self._ready()

    def close(self) -> None:
        """Let the connection go, if there is one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Look at one state of the file; nobody waits for us, nor we for anybody."""
        with self._translating():
            connection = self._ready()
            connection.execute("begin")
            try:
                yield connection
            finally:
                connection.rollback()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Change the file in one step, while nobody else does.

        A deferred transaction would not do: one that has read and then wants to write is
        refused at once if anybody wrote in between.
        """
        with self._translating():
            connection = self._ready()
            self._lock(connection)
            try:
                yield connection
            except BaseException:
                connection.rollback()
                raise
            self._commit(connection)

    def _lock(self, connection: sqlite3.Connection) -> None:
        # SQLite's own pauses grow to 100 ms, so that in a crowd newcomers always come first;
        # asked for a short while again and again, all have the same chance
        _set_patience(connection, PATIENCE / _TURNS)
        try:
            for _ in range(_TURNS - 1):
                try:
                    connection.execute("begin immediate")
                    return
                except sqlite3.OperationalError as error:
                    if _code_of(error) != sqlite3.SQLITE_BUSY:
                        raise
            connection.execute("begin immediate")
        finally:
            _set_patience(connection, PATIENCE)

    def _commit(self, connection: sqlite3.Connection) -> None:
        try:
            connection.execute("commit")
        except sqlite3.Error as error:
            if _code_of(error) == sqlite3.SQLITE_BUSY:
                # the transaction is still open then, so nothing of it was written
                connection.rollback()
                raise
            self.close()
            problem = f"the commit failed: {error}"
            raise OutcomeUnknown(self.label, problem) from error

    def _ready(self) -> sqlite3.Connection:
        # who keeps working on a file that was deleted or replaced meets nobody there
        if self._connection is not None and self._file != self._file_at_path():
            log.warning("store replaced: %s is another file now, and opened anew", self.label)
            self.close()
        if self._connection is None:
            self._connection = self._connect()
            self._file = self._file_at_path()
        return self._connection

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=PATIENCE, isolation_level=None)
        try:
            (mode,) = connection.execute("pragma journal_mode = wal").fetchone()
            if mode != "wal":
                raise StoreError(
                    self.label, f"no write-ahead log here ({mode}): it needs a local disk"
                )
            connection.execute(f"pragma synchronous = {self._synchronous}")
            migrate(connection, self.label)
        except BaseException:
            connection.close()
            raise
        return connection

    def _file_at_path(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    @contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            with translating(self._path, self.label):
                yield
        except StoreError as error:
            cause = error.__cause__
            if isinstance(cause, sqlite3.Error) and _code_of(cause) != sqlite3.SQLITE_BUSY:
                self.close()
            raise


@contextmanager
def translating(path: str, label: str) -> Iterator[None]:
    """Raise our errors for the driver's, about the file of this path."""
    try:
        yield
    except sqlite3.Error as error:
        code = _code_of(error)
        if code in _PASSING:
            kind = StoreRefused if code in _LASTING else StoreUnavailable
            raise kind(label, _problem(code, path)) from error
        raise StoreError(label, str(error)) from error
    except OSError as error:
        raise StoreUnavailable(label, error.strerror or str(error)) from error
    except (UnicodeError, OverflowError) as error:
        raise StoreError(label, f"a value cannot be kept: {error}") from error


def _problem(code: int, path: str) -> str:
    folder = os.path.dirname(path)
    if code == sqlite3.SQLITE_CANTOPEN and not os.path.isdir(folder):
        return f"the folder {folder} does not exist"
    if code == sqlite3.SQLITE_CANTOPEN and os.path.isdir(path):
        return "it is a folder, not a file"
    return _PASSING[code]


def _set_patience(connection: sqlite3.Connection, seconds: float) -> None:
    connection.execute(f"pragma busy_timeout = {round(seconds * 1000)}")


def _code_of(error: sqlite3.Error) -> int:
    """Return the primary result code; 0 for an error of the driver's own."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF
