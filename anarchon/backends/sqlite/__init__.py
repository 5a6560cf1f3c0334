"""A store in one SQLite file, for the processes of one machine.

The rules run here, inside a transaction; SQLite keeps the records and makes each step
atomic. The file must lie on a local disk: its write-ahead log is shared memory.

The store's clock is this machine's wall clock, read inside the transaction. All who share
the file share it, so they agree; but when it is set, every lease moves by as much.
"""

from anarchon.backends.sqlite.backend import SQLiteBackend
from anarchon.backends.sqlite.store import SQLiteStore

__all__ = ["SQLiteBackend", "SQLiteStore"]
