"""The way to the store, whatever stands behind its URL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from anarchon.backends.redis.cluster import ClusterLink
from anarchon.backends.redis.connection import ServerLink
from anarchon.backends.redis.keys import Keys
from anarchon.backends.redis.settings import Settings, Shape
from anarchon.backends.redis.wire import Command
from anarchon.standing import Standing


class Link(Protocol):
    """Carries commands there and replies back, over connections that are made when needed."""

    label: str

    async def open(self) -> None:
        """Connect, and see that nothing we will ask for is going to be refused."""

    async def close(self) -> None:
        """Let all connections go, and wait for their end."""

    async def examine(self) -> Standing:
        """Look at the servers over connections of their own; writes nothing."""

    async def ask(
        self,
        commands: Sequence[Command],
        *,
        first: Sequence[Command] = (),
        replicated: bool = False,
    ) -> list[Any]:
        """Return what each command answered, or raise for all of them.

        Each call of a script names its keys after their number, and every other command its key
        first. ``first`` is not answered, and sent before or beside the rest. ``replicated``: an
        answer counts only once as many replicas have what was written as the URL asks for.
        """


def link_to(settings: Settings, keys: Keys, warn: Callable[[str], None]) -> Link:
    """Return the way there, which connects nowhere yet."""
    kind = ClusterLink if settings.shape is Shape.CLUSTER else ServerLink
    return kind(settings, keys, warn)
