"""What RabbitMQ says to a declaration it refuses, and what went wrong on the way, in our words."""

from __future__ import annotations

import re
import socket
import ssl
from dataclasses import dataclass

from anarchon.backends.rabbitmq.names import Mark
from anarchon.backends.rabbitmq.settings import Settings
from anarchon.errors import StoreRefused, StoreUnavailable

ACCESS_REFUSED = 403
NOT_FOUND = 404
PRECONDITION_FAILED = 406
NOT_ALLOWED = 530

#: An argument that no queue can be made with: who declares it only looks.
IMPOSSIBLE = "x-max-length"

_DIFFERS = re.compile(r"inequivalent arg '([^']*)'")
_CURRENT = re.compile(r".* but current is '(.*)", re.DOTALL)
_DIGITS = re.compile(r"(\d+)'")


class QueueRefused(StoreUnavailable):
    """This one queue cannot be declared now, for no reason of the protocol's."""


@dataclass(frozen=True, slots=True)
class Made:
    """The queue is there, exactly as it was declared: made now, or before by the same claim."""


@dataclass(frozen=True, slots=True)
class Absent:
    """There is no such queue; said to a look only."""


@dataclass(frozen=True, slots=True)
class Taken:
    """The queue is there, and not as it was declared.

    ``mark`` is whose it is, where that could be read. ``expires`` is said alone: the queue lives
    for another time than declared, in milliseconds, and nothing else was compared.
    """

    mark: Mark | None = None
    expires: int | None = None


def read_refusal(text: str) -> Absent | Taken | None:
    """Read what was said with 406; ``None`` if it is not about a claim."""
    differs = _DIFFERS.search(text)
    if differs is None:
        return Absent() if f"invalid arg '{IMPOSSIBLE}'" in text else None
    found = _CURRENT.match(text)
    current = found[1] if found is not None else ""
    if differs[1] == "x-dead-letter-exchange":
        return Taken(Mark.read(current))
    digits = _DIGITS.match(current) if differs[1] == "x-expires" else None
    return Taken(expires=int(digits[1]) if digits is not None else None)


def is_passing(text: str) -> bool:
    """Tell whether a 404 is about a queue that another connection makes in this moment."""
    return "down or inaccessible" in text


def lacking_rights(settings: Settings, text: str) -> str:
    """Say which rights the user lacks, and how to give them."""
    rights = r"'^anarchon\.' '^anarchon\.' '^anarchon\.'"
    return (
        f"the user may not declare our queues ({text}); give it these rights:"
        f" rabbitmqctl set_permissions -p {settings.vhost} {settings.user} {rights}"
    )


def not_connected(
    settings: Settings, error: BaseException, *, is_reached: bool, is_broker: bool
) -> StoreUnavailable:
    """Return what it means that no connection could be made.

    ``is_reached``: something listens there. ``is_broker``: it has spoken AMQP.
    """
    told = told_by(error)
    code = getattr(error, "reply_code", None)
    if code == ACCESS_REFUSED:
        problem = f"the login of user {settings.user!r} was refused ({told})"
    elif code == NOT_ALLOWED:
        problem = f"the virtual host {settings.vhost!r} was refused ({told})"
    elif isinstance(error, ssl.SSLError):
        problem = f"no TLS connection ({told})"
    elif isinstance(error, socket.gaierror):
        problem = f"its host cannot be found ({told})"
    elif is_reached and not is_broker:
        form = "with TLS" if settings.tls is not None else "without TLS"
        problem = f"nothing there answers as RabbitMQ does {form} ({told})"
    else:
        problem = told
    kind = StoreRefused if _is_lasting(error, told) else StoreUnavailable
    return kind(settings.label, problem)


def _is_lasting(error: BaseException, told: str) -> bool:
    """Tell whether whoever tries again will hear the same, until somebody mends it."""
    code = getattr(error, "reply_code", None)
    if code in (ACCESS_REFUSED, NOT_ALLOWED):
        # a virtual host may have enough connections for now
        return "limit" not in told
    if isinstance(error, socket.gaierror):
        return error.errno != socket.EAI_AGAIN
    # a server that goes in the middle of a handshake may come back
    return isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError)


def told_by(error: BaseException) -> str:
    """Return the text of an error, or its kind."""
    text = getattr(error, "reply_text", None) or str(error)
    return str(text)[:300] or type(error).__name__
