"""Whether the user of a URL may do all that will be needed, found out before it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redis.exceptions import NoPermissionError, RedisError

from anarchon.backends.redis.errors import raise_for
from anarchon.backends.redis.facts import too_old_for_mode
from anarchon.backends.redis.scripts import RIGHTS
from anarchon.backends.redis.settings import Settings
from anarchon.backends.redis.wire import Command
from anarchon.errors import StoreRefused

#: How many arguments each takes at least, its key first.
_ARGUMENTS = {
    "get": 1,
    "hdel": 2,
    "hexists": 2,
    "hget": 2,
    "hgetall": 1,
    "hset": 3,
    "lindex": 2,
    "linsert": 4,
    "lrange": 3,
    "lrem": 3,
    "rpush": 2,
    "set": 2,
    "time": 0,
    "xadd": 4,
    "xcfgset": 3,
    "xdel": 2,
    "xlen": 1,
    "xrange": 3,
    "xrevrange": 3,
    "zadd": 3,
    "zrange": 3,
    "zrem": 2,
    "zscore": 2,
}


def questions(settings: Settings, key: str) -> list[Command]:
    """Return what asks any server, about a key of ours."""
    named = [part for name in settings.mode.commands for part in (name, _ARGUMENTS[name])]
    # a script that is known already would hide that others cannot be loaded
    return [("SCRIPT", "LOAD", RIGHTS.source), ("EVALSHA", RIGHTS.sha, 0, key, *named)]


def check_rights(settings: Settings, replies: Sequence[Any], place: str = "") -> None:
    """Raise where a right is missing, naming the commands."""
    refusals = [reply for reply in replies if isinstance(reply, NoPermissionError)]
    raise_for(settings, refusals, some_ran=False, place=place)
    reply = replies[-1]
    # what cannot be asked is found out when it is needed
    if isinstance(reply, RedisError) or not reply:
        return
    unknown = [command[1:] for command in reply if command.startswith("?")]
    if unknown and settings.mode.since is not None:
        raise too_old_for_mode(settings, "an older one, or Valkey")
    if unknown:
        raise StoreRefused(settings.label, f"it has no command {', '.join(unknown)}")
    missing = " ".join(f"+{command}" for command in reply)
    user = settings.options.get("username") or "default"
    problem = (
        f"the user {user!r} lacks rights on our keys: ACL SETUSER {user} ~anarchon:* {missing}"
    )
    raise StoreRefused(settings.label, f"{place}: {problem}" if place else problem)
