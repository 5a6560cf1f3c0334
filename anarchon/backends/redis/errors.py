"""What went wrong on the server or on the way to it, in the words of the port."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from redis import exceptions as driver

from anarchon.backends.redis.settings import Settings
from anarchon.errors import OutcomeUnknown, StoreError, StoreRefused, StoreUnavailable

#: What a server answers in place of an answer. redis-py takes some of them for the loss of
#: the connection, which goes on all the same.
REFUSALS = (
    driver.ResponseError,
    driver.AuthenticationError,
    driver.AuthorizationError,
    driver.BusyLoadingError,
)

#: Said before a command or script begins, so that nothing has happened; by class, and for
#: those that redis-py has no class for by their first word.
_BEFOREHAND = (
    driver.AuthenticationError,
    driver.AuthorizationError,
    driver.BusyLoadingError,
    driver.ClusterDownError,
    driver.NoPermissionError,
    driver.OutOfMemoryError,
    driver.ReadOnlyError,
    driver.TryAgainError,
)
_BEFOREHAND_WORDS = {"BUSY", "MISCONF", "NOREPLICAS"}

#: Said to who we are, or to what we came for, until somebody mends it.
_REFUSED = (
    driver.AuthenticationError,
    driver.AuthorizationError,
    driver.NoPermissionError,
    driver.ReadOnlyError,
)
_NO_SUCH_DATABASE = ("DB index is out of range", "SELECT is not allowed in cluster mode")


@contextmanager
def translated(settings: Settings, *, sent: bool, place: str = "") -> Iterator[None]:
    """Raise our errors for the driver's; ``sent`` says that a request may have gone out.

    ``place`` names one server of several.
    """
    try:
        yield
    except (driver.RedisError, OSError) as error:
        _redact(error, settings.secrets)
        kind: type[StoreError] = OutcomeUnknown if sent else StoreUnavailable
        if not sent and _is_refusal(error):
            kind = StoreRefused
        raise kind(settings.label, _text(error, place)) from error


def raise_for(
    settings: Settings, refusals: Sequence[driver.RedisError], *, some_ran: bool, place: str = ""
) -> None:
    """Raise what these refusals amount to, if there are any; ``some_ran``: of the same batch."""
    if not refusals:
        return
    broken = next((error for error in refusals if not is_beforehand(error)), None)
    error = broken or refusals[0]
    _redact(error, settings.secrets)
    kind: type[StoreError] = StoreError
    if broken is None:
        refused = StoreRefused if isinstance(error, _REFUSED) else StoreUnavailable
        kind = OutcomeUnknown if some_ran else refused
    raise kind(settings.label, _text(error, place)) from error


def raise_unless_acknowledged(settings: Settings, waited: list[Any]) -> None:
    """Raise if fewer replicas have what was written than the URL asks for.

    What went wrong does not matter: it is written, and may be lost with this server.
    """
    wanted = settings.wait_replicas
    for reply in waited:
        if isinstance(reply, driver.RedisError):
            _redact(reply, settings.secrets)
            problem = f"written, but its replicas could not be waited for ({reply})"
            raise OutcomeUnknown(settings.label, problem) from reply
        if reply < wanted:
            problem = f"written, but only {reply} of {wanted} replicas acknowledged it in time"
            raise OutcomeUnknown(settings.label, problem)


def is_beforehand(error: driver.RedisError) -> bool:
    """Tell whether it was refused before it began."""
    return isinstance(error, _BEFOREHAND) or str(error).split(" ")[0] in _BEFOREHAND_WORDS


def _is_refusal(error: Exception) -> bool:
    if isinstance(error, _REFUSED) or str(error).startswith(_NO_SUCH_DATABASE):
        return True
    # the driver's own stands in front of it
    cause = error.__cause__ or error.__context__
    if isinstance(cause, socket.gaierror):
        return cause.errno != socket.EAI_AGAIN
    return isinstance(cause, ssl.SSLCertVerificationError)


def _text(error: Exception, place: str) -> str:
    text = str(error) or type(error).__name__
    if isinstance(error, driver.ReadOnlyError):
        text = f"it is a read-only replica, and we need its primary ({text})"
    elif isinstance(error, driver.MovedError):
        text = f"it is a node of a cluster; write redis+cluster://HOST:PORT ({text})"
    elif "cluster support disabled" in text:
        text = f"it is a single server, and no node of a cluster; write redis://HOST:PORT ({text})"
    elif text.startswith(_NO_SUCH_DATABASE):
        text = f"it has no such database as the URL names ({text})"
    return f"{place}: {text}" if place else text


def _redact(error: BaseException, secrets: tuple[str, ...]) -> None:
    """Take secrets out of an error and what caused it: servers echo commands they do not know."""
    seen: set[int] = set()
    chained: BaseException | None = error
    while chained is not None and id(chained) not in seen:
        seen.add(id(chained))
        for secret in secrets:
            if secret and secret in str(chained):
                chained.args = tuple(str(arg).replace(secret, "***") for arg in chained.args)
        chained = chained.__cause__ or chained.__context__
