"""A claim-only store in RabbitMQ: whoever makes the queue of a slot has the slot.

The queue is declared with the claim's token in one of its arguments. The first declaration makes
it. Another one that is equal is harmless, and one that is not is refused, in a text that names
what differs. So a claim is one declaration, atomic and repeatable, and its answer never needs to
be remembered here. No message is ever published, and nothing consumes.

A queue goes by itself once it was left alone for as long as a claim is remembered. RabbitMQ tells
no time: this machine's clock decides whether a slot is due or late. No history is kept.

The user of the URL needs these rights on its virtual host, here for a user ``service``::

    rabbitmqctl set_permissions -p VHOST service '^anarchon\\.' '^anarchon\\.' '^anarchon\\.'

To configure queues, and to write to and read from them, which RabbitMQ asks for where a
declaration names an exchange for dead letters.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from anarchon.backends.rabbitmq.names import remembered
from anarchon.backends.rabbitmq.settings import Settings
from anarchon.backends.rabbitmq.store import RabbitMQStore
from anarchon.clock import SystemClock
from anarchon.standing import Standing


class RabbitMQBackend:
    """A store in one virtual host of a RabbitMQ; ``now`` is its clock, for tests.

    Raises ``ConfigurationError`` for a URL that cannot be used.
    """

    judges_time = False

    def __init__(self, url: str, *, now: Callable[[], datetime] | None = None) -> None:
        self._settings = Settings.of(url)
        self._now = now if now is not None else SystemClock().wall

    @classmethod
    def from_url(cls, url: str) -> RabbitMQBackend:
        """Return the backend for a URL that says everything."""
        return cls(url)

    def __repr__(self) -> str:
        return f"<RabbitMQBackend: {self.label}>"

    @property
    def label(self) -> str:
        return self._settings.label

    async def examine(self, namespace: str) -> Standing:
        return await RabbitMQStore(self._settings, namespace, self._now).examine()

    def connect(self, namespace: str) -> RabbitMQStore:
        return RabbitMQStore(self._settings, namespace, self._now)

    def remembers(self, within: timedelta) -> timedelta:
        return remembered(within)


__all__ = ["RabbitMQBackend", "RabbitMQStore"]
