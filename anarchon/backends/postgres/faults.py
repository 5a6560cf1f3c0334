"""What the driver's errors mean to whoever asked."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg

from anarchon.errors import OutcomeUnknown, StoreError, StoreRefused, StoreUnavailable

#: Raised by ``check_session`` in the migrations.
WRONG_ISOLATION = "AN001"
STANDBY = "AN002"

#: The schema is not there any more; the next connection makes it anew.
_SCHEMA_IS_GONE = frozenset({"3F000", "42883", "42P01", "42704"})

#: The server undid the statement, and will not do it as things stand.
_REFUSED = frozenset(
    {
        "25006",  # read-only: a standby, or a server without space
        "42501",  # rights taken away
        STANDBY,
    }
)
#: The server undid the statement, for a reason that is none of its members'.
_UNDONE = _SCHEMA_IS_GONE | {
    "40001",  # serialization
    "40P01",  # deadlock
    "55P03",  # lock not to be had
    "57014",  # cancelled, by somebody or by a timeout of the server's
}
#: By class: resources exhausted.
_UNDONE_CLASSES = frozenset({"53"})

#: The connection was not made, for a reason that may be mended at the server: login refused, no
#: such database.
_REFUSED_CLASSES = frozenset({"28", "3D"})
#: What PgBouncer says of the same, with the code of a lost connection as for all that it says.
_REFUSED_BY_POOLER = ("does not exist", "no such user", "unsupported startup parameter")
#: For one that may pass: connection lost, rolled back, no resources, lock not to be had, shut down.
_UNREACHED_CLASSES = frozenset({"08", "40", "53", "55", "57"})

#: Another connection may lead to another server.
_NEEDS_A_NEW_CONNECTION = _SCHEMA_IS_GONE | {"25006", STANDBY}

_Driver = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)


@contextmanager
def translating(store: str, *, asked: bool) -> Iterator[None]:
    """Turn the driver's errors into ours; ``asked`` once a request may have gone out."""
    try:
        yield
    except _Driver as error:
        meaning = _of_a_call(error) if asked else _of_connecting(error)
        raise meaning(store, _told(error)) from error


def leaves_a_clean_connection(error: BaseException) -> bool:
    """Tell whether the connection on which this was raised may be asked again."""
    if not isinstance(error, StoreError) or isinstance(error, OutcomeUnknown):
        return False
    return getattr(error.__cause__, "sqlstate", None) not in _NEEDS_A_NEW_CONNECTION


def _of_connecting(error: BaseException) -> type[StoreError]:
    if isinstance(error, asyncpg.PostgresError):
        state = (error.sqlstate or "")[:2]
        if state in _REFUSED_CLASSES or _is_refused_by_pooler(error):
            return StoreRefused
        return StoreUnavailable if state in _UNREACHED_CLASSES else StoreError
    if _is_refusal(error):
        return StoreRefused
    # a URL the driver cannot read, or a certificate that is not there
    return StoreError if isinstance(error, asyncpg.InterfaceError) else StoreUnavailable


def _is_refused_by_pooler(error: asyncpg.PostgresError) -> bool:
    said = str(error)
    return error.sqlstate == "08P01" and any(text in said for text in _REFUSED_BY_POOLER)


def _is_refusal(error: BaseException) -> bool:
    if isinstance(error, socket.gaierror):
        return error.errno != socket.EAI_AGAIN
    # what the driver raises for a server without TLS is of this very class
    return isinstance(error, ssl.SSLCertVerificationError) or type(error) is ConnectionError


def _of_a_call(error: BaseException) -> type[StoreError]:
    if isinstance(error, asyncpg.DataError):
        return StoreError
    if not isinstance(error, asyncpg.PostgresError):
        return OutcomeUnknown
    state = error.sqlstate or ""
    # an ERROR undoes the statement for certain; what ends the session may come after the commit
    if getattr(error, "severity_en", None) != "ERROR":
        return OutcomeUnknown
    if state in _REFUSED:
        return StoreRefused
    undone = state in _UNDONE or state[:2] in _UNDONE_CLASSES
    return StoreUnavailable if undone else StoreError


def _told(error: BaseException) -> str:
    if isinstance(error, socket.gaierror):
        return f"its host cannot be found: {error.strerror}"
    if isinstance(error, ConnectionRefusedError):
        return "no server listens there"
    lines = str(error).splitlines()
    return lines[0][:300] if lines else type(error).__name__
