"""The way to the servers: a connection that is made anew whenever the last one cannot be trusted.

The driver is not left to connect again by itself: what it had kept would be sent then, under the
feet of whoever asked, and a claim could win a slot that its asker has long given up. A call that
fails or is given up resets its connection instead, and the next one makes another; see
``anarchon.backends.connecting``.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from typing import TypeVar

from nats.errors import Error as DriverError

from anarchon.backends.connecting import Connecting
from anarchon.backends.nats.connection import (
    Answer,
    Connection,
    Denied,
    Lost,
    Request,
    is_lasting,
    told,
)
from anarchon.backends.nats.settings import Settings
from anarchon.clock import SystemClock
from anarchon.errors import (
    ConfigurationError,
    OutcomeUnknown,
    StoreError,
    StoreRefused,
    StoreUnavailable,
)

A = TypeVar("A")

#: For all of connecting, whoever waits, in seconds.
_PATIENCE = 10.0
_OLDEST = (2, 9)


class Link:
    """Asks on a connection that is prepared whenever it is made."""

    def __init__(
        self, settings: Settings, prepare: Callable[[Connection], Awaitable[None]]
    ) -> None:
        self.settings = settings
        self._prepare = prepare
        self._connection: Connection | None = None
        self._connecting = Connecting(settings.label, self._make)
        self._leaving: set[asyncio.Task[None]] = set()

    @property
    def label(self) -> str:
        return self.settings.label

    async def open(self) -> Connection:
        """Return the connection; makes and prepares one unless there is one."""
        return self._living() or await self._connecting.connect()

    async def ask(self, requests: Sequence[Request], *, writes: bool = False) -> list[Answer]:
        """Send requests together; ``writes`` says that something may have happened then."""
        return await self.use(lambda connection: connection.exchange(requests), writes=writes)

    async def use(self, work: Callable[[Connection], Awaitable[A]], *, writes: bool = False) -> A:
        """Do something with the connection, and let it go if that does not come to its end."""
        before = self._living()
        with nullcontext() if before is not None else self._connecting.in_a_call():
            connection = await self.be_ready()
            try:
                return await self._use(connection, work)
            except Lost as error:
                if writes:
                    raise OutcomeUnknown(self.label, str(error)) from error
                if connection is not before:
                    raise self._not_asked(error) from error
            # it may have ended long ago with nobody to notice, and nothing has happened
            connection = await self.be_ready()
            try:
                return await self._use(connection, work)
            except Lost as error:
                raise self._not_asked(error) from error

    async def be_ready(self) -> Connection:
        """Return the connection to whoever has the time left for a question."""
        connection = self._living()
        if connection is not None:
            return connection
        with self._connecting.in_a_call():
            return await self._connecting.connect_in_a_call()

    def _living(self) -> Connection | None:
        if self._connection is not None and not self._connection.is_alive:
            self.drop()
        return self._connection

    def _not_asked(self, error: Lost) -> StoreUnavailable:
        kind = StoreRefused if isinstance(error, Denied) else StoreUnavailable
        return kind(self.label, str(error))

    async def _use(self, connection: Connection, work: Callable[[Connection], Awaitable[A]]) -> A:
        try:
            return await work(connection)
        except BaseException as error:
            # answers may be under way that the next question must not hear
            self.drop()
            if isinstance(error, DriverError):
                raise Lost(told(error)) from error
            raise

    def drop(self) -> None:
        """Let the connection go at once; nothing more is sent on it."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._leave(connection)

    async def close(self) -> None:
        """Let the connection go, and the attempt at one, and wait for their end."""
        await self._connecting.end()
        self.drop()
        if self._leaving:
            await asyncio.wait(self._leaving)

    async def _make(self) -> Connection:
        try:
            async with SystemClock().timeout(_PATIENCE):
                connection = await self._connect()
                try:
                    await self._prepare(connection)
                except BaseException:
                    self._leave(connection)
                    raise
        except TimeoutError as error:
            problem = f"not connected within {_PATIENCE:.0f} s"
            raise StoreUnavailable(self.label, problem) from error
        except Lost as error:
            raise self._not_asked(error) from error
        self._connection = connection
        return connection

    async def _connect(self) -> Connection:
        problems: list[str] = []
        cause: Exception | None = None
        lasts = True
        for server in random.sample(self.settings.servers, len(self.settings.servers)):
            connection = Connection()
            try:
                await connection.connect(server, self.settings)
                self._check_version(connection)
                return connection
            except BaseException as error:
                self._leave(connection)
                if isinstance(error, ConfigurationError):
                    raise StoreError(self.label, str(error)) from error
                if not isinstance(error, (DriverError, OSError, TimeoutError)):
                    raise
                problems.append(told(error))
                cause = error
                lasts &= is_lasting(error)
        kind = StoreRefused if lasts else StoreUnavailable
        raise kind(self.label, "; ".join(dict.fromkeys(problems))) from cause

    def _check_version(self, connection: Connection) -> None:
        version = connection.client.connected_server_version
        if (version.major, version.minor) < _OLDEST:
            problem = f"NATS {version.major}.{version.minor} is too old: 2.9 or later is needed"
            raise StoreError(self.label, problem)

    def _leave(self, connection: Connection) -> None:
        # Not awaited: who was cancelled cannot wait.
        connection.client.reset()
        task = asyncio.get_running_loop().create_task(connection.end())
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)
