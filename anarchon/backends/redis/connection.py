"""One connection to the server, made anew whenever the last one cannot be trusted any more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ConnectionError as DriverConnectionError
from redis.exceptions import NoScriptError, OutOfMemoryError, RedisError

from anarchon.backends.redis import scripts
from anarchon.backends.redis.errors import REFUSALS, raise_for, translated
from anarchon.backends.redis.keys import LAYOUT, Keys
from anarchon.backends.redis.settings import Settings
from anarchon.errors import SchemaMismatch

Command: TypeAlias = tuple[str | int, ...]

#: Somebody may flush the scripts again between our loading them and our call.
_LOADS = 3


class Link:
    """A connection that checks the server whenever it is made.

    Nothing is asked twice here but what the server said it did not do. redis-py's client and
    its pipeline are not used: they do not tell a request that never went out from one that did.
    """

    def __init__(self, settings: Settings, keys: Keys, warn: Callable[[str], None]) -> None:
        self.label = settings.label
        self._settings = settings
        self._layout_key = keys.layout
        self._warn = warn
        self._connection: AbstractConnection | None = None

    async def open(self) -> None:
        """Make the connection, unless there is one."""
        await self._connected()

    async def close(self) -> None:
        """Let the connection go, and wait for its end."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with translated(self._settings, sent=False):
                await connection.disconnect()

    async def ask(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands in one piece; return what each answered, or raise for all of them."""
        connection = await self._connected()
        try:
            with translated(self._settings, sent=True):
                replies = await _exchange(connection, commands)
                await _ask_again(connection, commands, replies)
            some_ran = any(
                command[0] == "EVALSHA" and not isinstance(reply, RedisError)
                for command, reply in zip(commands, replies, strict=True)
            )
            raise_for(self._settings, _refusals_in(replies), some_ran=some_ran)
        except BaseException:
            # an answer may be under way that the next question must not hear; and a server
            # that refused may not be the one that its name stands for by now
            await self._drop()
            raise
        return replies

    async def _connected(self) -> AbstractConnection:
        if self._connection is not None and await _is_stale(self._connection):
            await self._drop()
        if self._connection is None:
            self._connection = await self._connect()
        return self._connection

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.disconnect(nowait=True)

    async def _connect(self) -> AbstractConnection:
        connection = self._settings.new_connection()
        try:
            with translated(self._settings, sent=False):
                await connection.connect()  # type: ignore[no-untyped-call]
                # setting it is refused by a replica, also where it is set already
                stamped, layout, memory = await _exchange(
                    connection,
                    [
                        ("SET", self._layout_key, LAYOUT, "NX"),
                        ("GET", self._layout_key),
                        ("INFO", "memory"),
                    ],
                )
            if isinstance(stamped, OutOfMemoryError) and isinstance(layout, str):
                # renewing needs no memory, and must go on where the server is full
                stamped = None
            raise_for(self._settings, _refusals_in([stamped, layout]), some_ran=False)
            self._check_layout(layout)
            self._check_eviction(memory)
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        return connection

    def _check_layout(self, layout: str) -> None:
        if layout != str(LAYOUT):
            raise SchemaMismatch(
                self.label,
                f"its keys have layout {layout}, and this version of anarchon knows layout"
                f" {LAYOUT} only ({self._layout_key})",
            )

    def _check_eviction(self, memory: object) -> None:
        if not isinstance(memory, str):
            # we have not the right to ask
            return
        facts = dict(line.split(":", 1) for line in memory.splitlines() if ":" in line)
        policy = facts.get("maxmemory_policy", "noeviction")
        # the volatile policies delete what has an end, and nothing of ours has
        if facts.get("maxmemory", "0") != "0" and policy.startswith("allkeys-"):
            self._warn(
                f"the server may delete our keys when its memory is full (maxmemory-policy"
                f" {policy}): slots may then run twice; set it to noeviction"
            )


def _refusals_in(replies: list[Any]) -> list[RedisError]:
    return [reply for reply in replies if isinstance(reply, RedisError)]


async def _is_stale(connection: AbstractConnection) -> bool:
    """Tell whether the server closed it since, or said something nobody asked for."""
    # the older name is the only one before redis-py 8, and warns since
    can_read = getattr(connection, "can_read", None) or connection.can_read_destructive
    try:
        return bool(await can_read())
    except (DriverConnectionError, OSError):
        return True


async def _exchange(connection: AbstractConnection, commands: Sequence[Command]) -> list[Any]:
    """Write all commands at once, then read as many replies; a refusal is one."""
    await connection.send_packed_command(_packed(commands))
    replies: list[Any] = []
    for _ in commands:
        try:
            replies.append(await connection.read_response(disconnect_on_error=False))
        except REFUSALS as refusal:
            replies.append(refusal)
    return replies


def _packed(commands: Sequence[Command]) -> bytes:
    # a third of the time that redis-py takes for it, and most of what a batch costs here
    parts = []
    for command in commands:
        parts.append(b"*%d\r\n" % len(command))
        for argument in command:
            data = str(argument).encode("utf-8", "surrogatepass")
            parts.append(b"$%d\r\n%b\r\n" % (len(data), data))
    return b"".join(parts)


async def _ask_again(
    connection: AbstractConnection, commands: Sequence[Command], replies: list[Any]
) -> None:
    """Load the scripts the server does not know, and repeat those calls: they did not run."""
    for _ in range(_LOADS):
        missed = [at for at, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
        if not missed:
            return
        unknown = {str(commands[at][1]) for at in missed}
        loads: list[Command] = [
            ("SCRIPT", "LOAD", scripts.BY_SHA[sha].source) for sha in sorted(unknown)
        ]
        again = await _exchange(connection, [*loads, *(commands[at] for at in missed)])
        for at, reply in zip(missed, again[len(loads) :], strict=True):
            replies[at] = reply
