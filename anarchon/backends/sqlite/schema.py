"""The tables, as numbered migrations.

All names begin with ``anarchon_``, so that the file may be shared with other tables. Times
and lengths are whole milliseconds. An edit of a migration that was released once changes
nothing where it has run: add another one.
"""

from __future__ import annotations

import sqlite3

from anarchon.errors import SchemaMismatch

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """
        create table anarchon_job (
            id integer primary key,
            namespace text not null,
            name text not null,
            floor integer not null,
            fence integer not null,
            unique (namespace, name)
        )
        """,
        """
        create table anarchon_fingerprint (
            job integer not null,
            fingerprint text not null,
            first_seen integer not null,
            last_seen integer not null,
            primary key (job, fingerprint)
        ) without rowid
        """,
        # token: null once it was released; expires: null without a lease;
        # spent: the tokens that were released, as a JSON array
        """
        create table anarchon_run (
            job integer not null,
            slot integer not null,
            state text not null,
            lease integer not null,
            overlap text not null,
            max_attempts integer not null,
            begins_as text not null,
            attempt integer not null,
            lapses integer not null,
            token text,
            expires integer,
            instance text not null,
            fence integer not null,
            started integer not null,
            spent text not null,
            primary key (job, slot)
        ) without rowid
        """,
        # each claim asks for what has not ended, among all that has
        """
        create index anarchon_unfinished on anarchon_run (job, slot)
        where state in ('claimed', 'running')
        """,
        # with a rowid: pruning counts attempts, and their details would make that slow
        """
        create table anarchon_attempt (
            job integer not null,
            slot integer not null,
            attempt integer not null,
            state text not null,
            instance text not null,
            fence integer not null,
            started integer not null,
            ended integer,
            detail text,
            primary key (job, slot, attempt)
        )
        """,
    ),
)

VERSION = len(MIGRATIONS)


def migrate(connection: sqlite3.Connection, label: str) -> None:
    """Bring the tables to this version, one process at a time.

    Raises ``SchemaMismatch`` if a later version of this package was here.
    """
    # most find nothing to do, and need no lock to see it
    if _version_of(connection, label) == VERSION:
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
