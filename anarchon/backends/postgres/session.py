"""One connection, made when it is needed, and never used again once it is in doubt.

Connecting takes two to six round trips of the driver's, by what it asks for (TCP, TLS, a
password), and one to check what is there; see ``anarchon.backends.connecting``.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import asyncpg

from anarchon.backends.connecting import Connecting
from anarchon.backends.postgres.faults import (
    WRONG_ISOLATION,
    leaves_a_clean_connection,
    translating,
)
from anarchon.backends.postgres.schema import bring_up_to_date
from anarchon.backends.postgres.settings import Settings
from anarchon.clock import SystemClock

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

#: How long a connection may take to end by itself, in seconds.
_FAREWELL = 5.0

#: A client that stands still, or is cut off, before the commit would keep its locks for hours.
#: So long does a call wait for a lock, too.
_BEGIN = (
    "begin isolation level read committed; set local idle_in_transaction_session_timeout = '2s'"
)


class Session:
    """Asks one statement at a time."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._clock = SystemClock()
        self._connection: Connection | None = None
        self._connecting = Connecting(settings.label, self._make)
        self._begins = False
        self._leaving: set[asyncio.Task[None]] = set()

    async def connect(self) -> Connection:
        """Return the connection, to a store that is up to date."""
        if self._connection is not None and not self._connection.is_closed():
            return self._connection
        self._connection = None
        return await self._connecting.connect()

    async def ask(self, query: str, *arguments: object) -> list[asyncpg.Record]:
        """Run one statement as a transaction of its own."""
        connection = self._connection
        if connection is not None and not connection.is_closed():
            return await self._ask(connection, query, arguments)
        with self._connecting.in_a_call():
            self._connection = None
            connection = await self._connecting.connect_in_a_call()
            return await self._ask(connection, query, arguments)

    async def close(self) -> None:
        """Let the connection go, and wait until it has."""
        await self._connecting.end()
        connection, self._connection = self._connection, None
        if connection is not None:
            self._leave(connection)
        if self._leaving:
            await asyncio.wait(self._leaving)

    async def _make(self) -> Connection:
        with translating(self._settings.label, asked=False):
            async with self._clock.timeout(self._settings.connect_timeout):
                connection = await asyncpg.connect(
                    self._settings.url,
                    timeout=self._settings.connect_timeout,
                    # a pooler may give each transaction another server
                    statement_cache_size=0,
                )
                try:
                    await bring_up_to_date(connection, self._settings)
                except BaseException:
                    self._leave(connection)
                    raise
        self._connection = connection
        return connection

    async def _ask(
        self, connection: Connection, query: str, arguments: tuple[object, ...]
    ) -> list[asyncpg.Record]:
        try:
            with translating(self._settings.label, asked=True):
                return await self._run(connection, query, arguments)
        except BaseException as error:
            if not leaves_a_clean_connection(error):
                self._connection = None
                self._leave(connection)
            raise

    async def _run(
        self, connection: Connection, query: str, arguments: tuple[object, ...]
    ) -> list[asyncpg.Record]:
        if not self._begins:
            try:
                return await connection.fetch(query, *arguments)
            except asyncpg.PostgresError as error:
                if error.sqlstate != WRONG_ISOLATION:
                    raise
                # this database defaults to another level: say it each time from now on
                self._begins = True
        try:
            await connection.execute(_BEGIN)
            rows = await connection.fetch(query, *arguments)
        except asyncpg.PostgresError:
            if not connection.is_closed():
                await connection.execute("rollback")
            raise
        await connection.execute("commit")
        return rows

    def _leave(self, connection: Connection) -> None:
        # Not awaited: who was cancelled cannot wait. Closing gives the driver the time to tell
        # the server that the statement under way is not wanted any more.
        task = asyncio.get_running_loop().create_task(_close(connection))
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)


async def _close(connection: Connection) -> None:
    try:
        await connection.close(timeout=_FAREWELL)
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
        connection.terminate()
