"""The way to the servers: a connection that is made anew whenever the last one cannot be trusted.

The driver is not left to connect again by itself: what it had kept would be sent then, under the
feet of whoever asked, and a claim could win a slot that its asker has long given up. A call that
fails or is given up resets its connection instead, and the next one makes another.

That takes more round trips than a call has time for on a slow network. So the attempt is nobody's
but the link's: a call that is given up leaves it to the next one, and one that has to wait long for
it may be told to come again instead of being sent: what it had left of its time would end the new
connection as well, and so on for ever.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from nats.errors import Error as DriverError

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
#: In seconds; where connecting took no longer, any call has the time for it.
_LONG = 0.2
_OLDEST = (2, 9)


class Link:
    """Asks on a connection that is prepared whenever it is made."""

    def __init__(
        self, settings: Settings, prepare: Callable[[Connection], Awaitable[None]]
    ) -> None:
        self.settings = settings
        self._prepare = prepare
        self._clock = SystemClock()
        self._connection: Connection | None = None
        self._attempt: asyncio.Task[Connection] | None = None
        self._took = 0.0
        self._calls_are_short = False
        self._leaving: set[asyncio.Task[None]] = set()

    @property
    def label(self) -> str:
        return self.settings.label

    async def open(self) -> Connection:
        """Return the connection; makes and prepares one unless there is one."""
        if self._connection is not None and self._connection.is_alive:
            return self._connection
        self.drop()
        if self._attempt is None or self._attempt.done():
            loop = asyncio.get_running_loop()
            self._attempt = loop.create_task(self._make(), name="anarchon-connect")
            self._attempt.add_done_callback(_hear)
        attempt = self._attempt
        # it goes on if whoever waits here is cancelled
        await asyncio.wait((attempt,))
        return attempt.result()

    async def ask(self, requests: Sequence[Request], *, writes: bool = False) -> list[Answer]:
        """Send requests together; ``writes`` says that something may have happened then."""
        return await self.use(lambda connection: connection.exchange(requests), writes=writes)

    async def use(self, work: Callable[[Connection], Awaitable[A]], *, writes: bool = False) -> A:
        """Do something with the connection, and let it go if that does not come to its end."""
        with self._within_a_call():
            before = self._connection
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
        with self._within_a_call():
            before = self._connection
            connection = await self.open()
            if connection is not before and self._calls_are_short and self._took > _LONG:
                problem = f"connecting took {self._took:.1f} s, too long for this call"
                raise StoreUnavailable(self.label, problem)
            return connection

    @contextmanager
    def _within_a_call(self) -> Iterator[None]:
        """Learn whether a call that has to connect is given up before it is answered."""
        before = self._clock.monotonic()
        has_to_connect = self._connection is None or not self._connection.is_alive
        try:
            yield
        except asyncio.CancelledError:
            if has_to_connect and self._clock.monotonic() - before > _LONG:
                self._calls_are_short = True
            raise

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
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            attempt.cancel()
            await asyncio.wait((attempt,))
        self.drop()
        if self._leaving:
            await asyncio.wait(self._leaving)

    async def _make(self) -> Connection:
        before = self._clock.monotonic()
        try:
            async with self._clock.timeout(_PATIENCE):
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
        self._took = self._clock.monotonic() - before
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


def _hear(attempt: asyncio.Task[Connection]) -> None:
    # of a failure that nobody waited for, asyncio would warn
    if not attempt.cancelled():
        attempt.exception()
