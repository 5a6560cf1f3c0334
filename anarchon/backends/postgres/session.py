"""One connection, made when it is needed, and never used again once it is in doubt.

Connecting takes more round trips than a call has time for on a slow network: two to six for
the driver, by what it asks for (TCP, TLS, a password), and one to check what is there. So the
attempt is nobody's but the session's. A call that is given up leaves it to the next one, and
one that has to wait long for it may be told to come again instead of being sent: what it had
left of its time would end the new connection as well, and so on for ever.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import asyncpg

from anarchon.backends.postgres.faults import (
    WRONG_ISOLATION,
    leaves_a_clean_connection,
    translating,
)
from anarchon.backends.postgres.schema import bring_up_to_date
from anarchon.backends.postgres.settings import Settings
from anarchon.clock import SystemClock
from anarchon.errors import StoreUnavailable

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

#: How long a connection may take to end by itself, in seconds.
_FAREWELL = 5.0
#: In seconds. Where connecting took no longer, a call takes no more than two thirds of it: the
#: deadline that comes with the shortest lease, a third of a second, is enough for both.
_LONG = 0.2

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
        self._attempt: asyncio.Task[Connection] | None = None
        self._took = 0.0
        self._calls_are_short = False
        self._begins = False
        self._leaving: set[asyncio.Task[None]] = set()

    async def connect(self) -> Connection:
        """Return the connection, to a store that is up to date."""
        if self._connection is not None and not self._connection.is_closed():
            return self._connection
        self._connection = None
        if self._attempt is None or self._attempt.done():
            loop = asyncio.get_running_loop()
            self._attempt = loop.create_task(self._make(), name="anarchon-connect")
            self._attempt.add_done_callback(_hear)
        attempt = self._attempt
        # it goes on if whoever waits here is cancelled
        await asyncio.wait((attempt,))
        return attempt.result()

    async def ask(self, query: str, *arguments: object) -> list[asyncpg.Record]:
        """Run one statement as a transaction of its own."""
        connection = self._connection
        if connection is None or connection.is_closed():
            return await self._connect_and_ask(query, arguments)
        return await self._ask(connection, query, arguments)

    async def close(self) -> None:
        """Let the connection go, and wait until it has."""
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            attempt.cancel()
            await asyncio.wait((attempt,))
        connection, self._connection = self._connection, None
        if connection is not None:
            self._leave(connection)
        if self._leaving:
            await asyncio.wait(self._leaving)

    async def _make(self) -> Connection:
        before = self._clock.monotonic()
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
        self._took = self._clock.monotonic() - before
        self._connection = connection
        return connection

    async def _connect_and_ask(
        self, query: str, arguments: tuple[object, ...]
    ) -> list[asyncpg.Record]:
        before = self._clock.monotonic()
        try:
            connection = await self.connect()
            if self._calls_are_short and self._took > _LONG:
                problem = f"connecting took {self._took:.1f} s, too long for this call"
                raise StoreUnavailable(self._settings.label, problem)
            return await self._ask(connection, query, arguments)
        except asyncio.CancelledError:
            if self._clock.monotonic() - before > _LONG:
                self._calls_are_short = True
            raise

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


def _hear(attempt: asyncio.Task[Connection]) -> None:
    # of a failure that nobody waited for, asyncio would warn
    if not attempt.cancelled():
        attempt.exception()


async def _close(connection: Connection) -> None:
    try:
        await connection.close(timeout=_FAREWELL)
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
        connection.terminate()
