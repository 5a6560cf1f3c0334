"""A store in PostgreSQL: the protocol as functions of one schema, over asyncpg.

Slots are claimed by calling those functions, one statement a call, each a transaction of its
own; so it works behind PgBouncer in transaction mode as well. It never uses a connection,
a transaction or a table of the user's, and never asks a standby.

Whoever opens the store first brings its schema up to date, for which it needs to own it, or
to be allowed to create it. After that a role with less will do::

    grant usage on schema anarchon to service;
    grant select on anarchon.migration to service;
    grant select, insert, update, delete
        on anarchon.job, anarchon.edition, anarchon.run, anarchon.attempt to service;

A database whose default isolation level is not READ COMMITTED works too, at two more round
trips a call. The server ends the session of a client that stands still in the midst of one, after
two seconds.
"""

from __future__ import annotations

from anarchon.backends.postgres.examining import examine
from anarchon.backends.postgres.settings import Settings
from anarchon.backends.postgres.store import PostgresStore
from anarchon.standing import Standing


class PostgresBackend:
    """A store in one schema of a PostgreSQL database.

    ``url`` may be written as libpq takes it; ``?schema=`` in it names the schema too.
    """

    def __init__(self, url: str, *, schema: str | None = None) -> None:
        self._settings = Settings.of(url, schema)

    @classmethod
    def from_url(cls, url: str) -> PostgresBackend:
        """Return the backend for a URL that says everything."""
        return cls(url)

    def __repr__(self) -> str:
        return f"<PostgresBackend: {self.label}>"

    @property
    def label(self) -> str:
        return self._settings.label

    async def examine(self, namespace: str) -> Standing:
        return await examine(self._settings)

    def connect(self, namespace: str) -> PostgresStore:
        return PostgresStore(self._settings, namespace)


__all__ = ["PostgresBackend", "PostgresStore"]
