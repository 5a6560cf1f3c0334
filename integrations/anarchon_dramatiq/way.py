"""The way to a broker: connections of our own, on which no call lasts longer than seconds.

An actor sends by its broker. Here it is given a twin of that broker, which shares all but the
connections: the same actors, queues and middleware, whose hooks see the broker they know. Which
bounds a twin has is told by the module of its kind; a broker of another kind is used as it is.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any, Protocol

from dramatiq import Actor, Broker, Message

#: How long one step may take: reaching the broker, sending, hearing its confirmation.
PATIENCE = 5.0


class Way(Protocol):
    """Sends what an actor is to be sent; for one thread at a time."""

    #: Where the messages go; no user and no password.
    address: str

    def send(self, actor: Actor[..., Any], **message: Any) -> Message[Any]:
        """Send a message and return it, once the broker has it."""


class _AsItIs:
    """Leaves it to the broker how long a call may take."""

    def __init__(self, broker: Broker) -> None:
        kind = type(broker)
        self.address = f"{kind.__module__}.{kind.__qualname__}"

    def send(self, actor: Actor[..., Any], **message: Any) -> Message[Any]:
        return actor.send_with_options(**message)


def way_to(broker: Broker) -> Way:
    """Return the way to a broker; connects nowhere yet."""
    module = _module_for(broker)
    if module is None:
        return _AsItIs(broker)
    way: Way = module.way_to(broker)
    return way


def unattended(broker: Broker, queues: Iterable[str]) -> Mapping[str, str]:
    """Ask a broker for signs of workers; return what is wrong with the queues that have none.

    Nobody can tell with brokers of other kinds than ours. Raises whatever a driver does.
    """
    module = _module_for(broker)
    found: Mapping[str, str] = {} if module is None else module.unattended(broker, queues)
    return found


def _module_for(broker: Broker) -> Any:
    # whoever has made such a broker has imported its module
    for kind, module, name in (
        ("dramatiq.brokers.redis", "anarchon_dramatiq.redis", "RedisBroker"),
        ("dramatiq.brokers.rabbitmq", "anarchon_dramatiq.rabbitmq", "RabbitmqBroker"),
    ):
        known = sys.modules.get(kind)
        if known is not None and isinstance(broker, getattr(known, name)):
            return import_module(module)
    return None


def twin_of(broker: Broker) -> Any:
    """Return a copy of a broker whose hooks are called for the broker itself."""
    twin: Any = copy.copy(broker)
    twin.emit_before = broker.emit_before
    twin.emit_after = broker.emit_after
    return twin


def sent_by(twin: Any, actor: Actor[..., Any], message: dict[str, Any]) -> Message[Any]:
    """Let an actor send by a twin of its broker."""
    own = copy.copy(actor)
    own.broker = twin
    return own.send_with_options(**message)
