"""The tables, as numbered migrations.

An edit of a migration that was released once changes nothing where it has run: add another one.
"""

from __future__ import annotations

import sqlite3

from anarchon.backends.sqlrecords.tables import TABLES
from anarchon.errors import SchemaMismatch

MIGRATIONS: tuple[tuple[str, ...], ...] = (TABLES,)

VERSION = len(MIGRATIONS)


def migrate(connection: sqlite3.Connection, label: str) -> None:
    """Bring the tables to this version, one process at a time.

    Raises ``SchemaMismatch`` if a later version of this package was here.
    """
    # most find nothing to do, and need no lock to see it
    if is_current(connection, label):
        return
    connection.execute("begin immediate")
    try:
        version = _version_of(connection, label)
        for migration in MIGRATIONS[version:]:
            for statement in migration:
                connection.execute(statement)
        connection.execute("update anarchon_schema set version = ?", (VERSION,))
        connection.execute("commit")
    except BaseException:
        connection.rollback()
        raise


def is_current(connection: sqlite3.Connection, label: str) -> bool:
    """Tell whether the tables are of this version; raises ``SchemaMismatch`` for a later one."""
    return _version_of(connection, label) == VERSION


def _version_of(connection: sqlite3.Connection, label: str) -> int:
    if connection.in_transaction:
        connection.execute("create table if not exists anarchon_schema (version integer not null)")
    elif not connection.execute(
        "select 1 from sqlite_master where type = 'table' and name = 'anarchon_schema'"
    ).fetchone():
        return 0
    row = connection.execute("select version from anarchon_schema").fetchone()
    if row is None:
        if connection.in_transaction:
            connection.execute("insert into anarchon_schema values (0)")
        return 0
    version = int(row[0])
    if version > VERSION:
        raise SchemaMismatch(
            label,
            f"its tables are of version {version}, and this package knows {VERSION}: "
            "update anarchon here, or use another file",
        )
    return version
