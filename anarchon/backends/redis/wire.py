"""Commands written to a connection at once, and the replies read back one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ConnectionError as DriverConnectionError
from redis.exceptions import NoScriptError, RedisError

from anarchon.backends.redis import scripts
from anarchon.backends.redis.errors import REFUSALS

Command: TypeAlias = tuple[str | int, ...]

#: Somebody may flush the scripts again between our loading them and our call.
_LOADS = 3


async def exchange(connection: AbstractConnection, commands: Sequence[Command]) -> list[Any]:
    """Write all commands at once, then read as many replies; a refusal is one."""
    await connection.send_packed_command(_packed(commands))
    replies: list[Any] = []
    for _ in commands:
        try:
            replies.append(await connection.read_response(disconnect_on_error=False))
        except REFUSALS as refusal:
            replies.append(refusal)
    return replies


async def exchange_all(
    connection: AbstractConnection, commands: Sequence[Command], wait: Sequence[Command]
) -> tuple[list[Any], list[Any]]:
    """Exchange commands and what waits for them; return the replies of both.

    Loads the scripts that the server does not know, and repeats those calls: they did not run.
    """
    count = len(commands)
    heard = await exchange(connection, [*commands, *wait])
    replies, waited = heard[:count], heard[count:]
    for _ in range(_LOADS):
        missed = [at for at, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
        if not missed:
            break
        loads = loads_for([commands[at] for at in missed])
        repeated = [commands[at] for at in missed]
        heard = (await exchange(connection, [*loads, *repeated, *wait]))[len(loads) :]
        for at, reply in zip(missed, heard, strict=False):
            replies[at] = reply
        waited = heard[len(missed) :]
    return replies, waited


def loads_for(calls: Sequence[Command]) -> list[Command]:
    """Return what makes the scripts of these calls known to a server."""
    unknown = {str(call[1]) for call in calls if call[0] == "EVALSHA"}
    return [("SCRIPT", "LOAD", scripts.BY_SHA[sha].source) for sha in sorted(unknown)]


def refusals_in(replies: Sequence[Any]) -> list[RedisError]:
    return [reply for reply in replies if isinstance(reply, RedisError)]


def has_run(commands: Sequence[Command], replies: Sequence[Any]) -> bool:
    """Tell whether one of our scripts has run."""
    return any(
        command[0] == "EVALSHA" and not isinstance(reply, RedisError)
        for command, reply in zip(commands, replies, strict=True)
    )


async def is_stale(connection: AbstractConnection) -> bool:
    """Tell whether the server closed it since, or said something nobody asked for."""
    # the older name is the only one before redis-py 8, and warns since
    can_read = getattr(connection, "can_read", None) or connection.can_read_destructive
    try:
        return bool(await can_read())
    except (DriverConnectionError, OSError):
        return True


def _packed(commands: Sequence[Command]) -> bytes:
    # a fifth of the time that redis-py takes for it, and most of what a batch costs here
    known: dict[str | int, bytes] = {}
    parts = []
    for command in commands:
        parts.append(b"*%d\r\n" % len(command))
        for argument in command:
            part = known.get(argument)
            if part is None:
                # the calls of a batch say much the same
                data = str(argument).encode("utf-8", "surrogatepass")
                part = known[argument] = b"$%d\r\n%b\r\n" % (len(data), data)
            parts.append(part)
    return b"".join(parts)
