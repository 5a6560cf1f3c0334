"""A connection to a server, made anew whenever the last one cannot be trusted any more.

Connecting takes several round trips (TCP, TLS, a password, a look at the server); see
``anarchon.backends.connecting``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import RedisError

from anarchon.backends.connecting import Connecting
from anarchon.backends.redis import rights
from anarchon.backends.redis.errors import (
    raise_for,
    raise_unless_acknowledged,
    translated,
)
from anarchon.backends.redis.facts import Facts, check, warn_of
from anarchon.backends.redis.keys import Keys
from anarchon.backends.redis.layout import check_layout, check_stamp, stamp
from anarchon.backends.redis.sentinels import Sentinels
from anarchon.backends.redis.settings import Address, Settings, Shape
from anarchon.backends.redis.wire import (
    Command,
    exchange,
    exchange_all,
    has_run,
    is_stale,
    refusals_in,
)
from anarchon.clock import SystemClock
from anarchon.errors import OutcomeUnknown, StoreUnavailable
from anarchon.standing import Standing

#: How long an attempt may take, in seconds: behind the same name may be another server by then.
_ATTEMPT = 5.0

#: No sentinel takes a server for dead that was silent for less.
_SILENCE = 1.0

#: A replica that is well answers within a round trip; whoever waits for it asks again.
_REPLICAS_MILLIS = 1000

NO_RIGHT_TO_LOOK = (
    "its memory policy, version and replicas could not be looked at: the user lacks +info"
)


def waiting(settings: Settings) -> list[Command]:
    """Return what makes the server wait for its replicas, if the URL asks for that."""
    # a script cannot wait, and a trip of its own would double the time of every call
    return [("WAIT", settings.wait_replicas, _REPLICAS_MILLIS)] if settings.wait_replicas else []


class Line:
    """At most one connection to one server, by a way to make it that looks at the server first.

    Who sends while another does waits for its answer.

    Nothing is asked twice here but what the server said it did not do. redis-py's clients and
    their pipelines are not used: they do not tell a request that never went out from one that
    did, and those for sentinels and clusters repeat both.
    """

    def __init__(
        self, settings: Settings, connect: Callable[[], Awaitable[AbstractConnection]], place: str
    ) -> None:
        self._settings = settings
        self._connect = connect
        self._place = place
        self._connection: AbstractConnection | None = None
        self._connecting = Connecting(settings.label, self._make)
        self._turn = asyncio.Lock()

    async def ready(self) -> AbstractConnection:
        """Return the connection, made if there is none."""
        return await self._living() or await self._connecting.connect()

    async def _living(self) -> AbstractConnection | None:
        if self._connection is not None and await is_stale(self._connection):
            await self.drop()
        return self._connection

    async def _make(self) -> AbstractConnection:
        try:
            async with SystemClock().timeout(_ATTEMPT):
                connection = await self._connect()
        except TimeoutError as error:
            raise self._unavailable(f"no answer within {_ATTEMPT:.0f} s") from error
        self._connection = connection
        return connection

    async def send(
        self, commands: Sequence[Command], wait: Sequence[Command] = ()
    ) -> tuple[list[Any], list[Any]]:
        """Send commands and what waits for them in one piece; return what each answered."""
        async with self._turn:
            connection = await self._living()
            if connection is not None:
                return await self._exchange(connection, commands, wait)
            with self._connecting.in_a_call():
                connection = await self._connecting.connect_in_a_call()
                return await self._exchange(connection, commands, wait)

    async def _exchange(
        self, connection: AbstractConnection, commands: Sequence[Command], wait: Sequence[Command]
    ) -> tuple[list[Any], list[Any]]:
        try:
            with translated(self._settings, sent=True, place=self._place):
                return await exchange_all(connection, commands, wait)
        except BaseException:
            # an answer may be under way that the next question must not hear
            await self.drop()
            raise

    def _unavailable(self, problem: str) -> StoreUnavailable:
        place = f"{self._place}: " if self._place else ""
        return StoreUnavailable(self._settings.label, place + problem)

    async def leave(self) -> None:
        """Let the connection go, and the attempt at one."""
        await self._connecting.end()
        await self.drop()

    async def drop(self) -> None:
        """Let the connection go; the next one is made by whoever needs it."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.disconnect(nowait=True)

    async def close(self) -> None:
        """Let the connection go, and the attempt at one, and wait for their end."""
        await self._connecting.end()
        connection, self._connection = self._connection, None
        if connection is not None:
            # over TLS the other side is waited for, and may say nothing any more
            with suppress(RedisError, OSError):
                await connection.disconnect()


class ServerLink:
    """The way to one server, be it named by the URL or by sentinels.

    A primary that stood still while its sentinels replaced it does not know that when it goes
    on, and grants what runs elsewhere too, until they tell it seconds later. Its silence is the
    sign of it: after one, or a call as long, the sentinels are asked whether it still is the one.
    """

    def __init__(self, settings: Settings, keys: Keys, warn: Callable[[str], None]) -> None:
        self.label = settings.label
        self._settings = settings
        self._layout_key = keys.layout
        self._warn = warn
        self._wait = waiting(settings)
        self._sentinels = Sentinels(settings) if settings.shape is Shape.SENTINEL else None
        self._line = Line(settings, self._connect, "")
        self._address: Address | None = None
        self._heard = 0.0

    async def open(self) -> None:
        """Make the connection, unless there is one, and see that nothing will be refused."""
        await self._line.ready()
        replies, _ = await self._line.send(rights.questions(self._settings, self._layout_key))
        rights.check_rights(self._settings, replies)

    async def examine(self) -> Standing:
        """Look at the server over a connection of its own; writes nothing."""
        address: Address | None = None
        if self._sentinels is not None:
            address, problems = await self._sentinels.vote()
            for problem in problems:
                self._warn(f"not all sentinels help: {problem}")
        connection = self._settings.new_connection(address)
        try:
            with translated(self._settings, sent=False):
                await connection.connect()  # type: ignore[no-untyped-call]
                asked: list[Command] = [("GET", self._layout_key), ("INFO",)]
                layout, info = await exchange(connection, asked)
                facts = Facts.of(info)
                check(self._settings, facts)
                raise_for(self._settings, refusals_in([layout]), some_ran=False)
                if layout is not None:
                    check_layout(self._settings, self._layout_key, layout)
                questions = rights.questions(self._settings, self._layout_key)
                replies = await exchange(connection, questions)
            rights.check_rights(self._settings, replies)
            if not facts.told:
                self._warn(NO_RIGHT_TO_LOOK)
            warn_of(self._settings, facts, self._warn)
        finally:
            await connection.disconnect(nowait=True)
        return Standing(facts.server, layout is not None)

    async def close(self) -> None:
        """Let the connection go, and wait for its end."""
        await self._line.close()

    async def ask(
        self,
        commands: Sequence[Command],
        *,
        first: Sequence[Command] = (),
        replicated: bool = False,
    ) -> list[Any]:
        """Send commands in one piece; return what each answered, or raise for all of them.

        ``first`` goes before them, and is not answered. ``replicated``: an answer counts only
        once as many replicas have what was written as the URL asks for. Asked again on a new
        connection it is written again, by the scripts, because a server waits for what this
        very connection wrote.
        """
        asked = [*first, *commands]
        if await self._is_replaced():
            await self._line.leave()
        self._heard = _now()
        replies, waited = await self._line.send(asked, self._wait if replicated else ())
        try:
            if await self._is_replaced():
                problem = "it has answered, but another was made the primary meanwhile"
                raise OutcomeUnknown(self.label, problem)
            self._heard = _now()
            some_ran = has_run(asked, replies)
            raise_for(self._settings, refusals_in(replies), some_ran=some_ran)
            raise_unless_acknowledged(self._settings, waited)
        except BaseException:
            # a server that refused may not be the one that its name stands for by now
            await self._line.drop()
            raise
        return replies[len(first) :]

    async def _is_replaced(self) -> bool:
        """Tell whether the sentinels say so; they are asked after a silence only."""
        return _now() - self._heard > _SILENCE and await self._is_another_named()

    async def _is_another_named(self) -> bool:
        if self._sentinels is None or self._address is None:
            return False
        try:
            return await self._sentinels.primary(hurry=True) != self._address
        except StoreUnavailable:
            # without sentinels nobody is promoted
            return False

    async def _connect(self) -> AbstractConnection:
        address = None if self._sentinels is None else await self._sentinels.primary()
        self._address = address
        connection = self._settings.new_connection(address)
        try:
            with translated(self._settings, sent=False):
                await connection.connect()  # type: ignore[no-untyped-call]
                # waits for nobody, but says whether we have the right to
                rights_to_wait: list[Command] = [("WAIT", 0, 0) for _ in self._wait]
                asked = [*stamp(self._settings, self._layout_key), ("INFO",), *rights_to_wait]
                stamped, layout, info, *waited = await exchange(connection, asked)
            facts = Facts.of(info)
            check(self._settings, facts)
            raise_for(self._settings, refusals_in(waited), some_ran=False)
            check_stamp(self._settings, self._layout_key, [stamped, layout])
            warn_of(self._settings, facts, self._warn)
            if await self._is_another_named():
                raise StoreUnavailable(self.label, "another was made the primary meanwhile")
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        self._heard = _now()
        return connection


def _now() -> float:
    return SystemClock().monotonic()
