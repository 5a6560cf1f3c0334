"""Calls of scripts sent in one piece, and what they answered as a reply of the port."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from anarchon.backends.redis.link import Link
from anarchon.backends.redis.wire import Command
from anarchon.clock import from_millis
from anarchon.store import Reply

A = TypeVar("A")


async def ask(
    link: Link,
    calls: Sequence[Command],
    read: Callable[[Any], A],
    *,
    first: Sequence[Command] = (),
    replicated: bool = False,
) -> Reply[A]:
    """Ask in one trip; each call's reply is a list that begins with the time.

    No calls at all just tell the time.
    """
    if not calls:
        ((seconds, micros),) = await link.ask([("TIME",)])
        return Reply(from_millis(int(seconds) * 1000 + int(micros) // 1000), ())
    heard = await link.ask(calls, first=first, replicated=replicated)
    time = max(reply[0] for reply in heard)
    return Reply(from_millis(time), tuple(read(reply[1:]) for reply in heard))
