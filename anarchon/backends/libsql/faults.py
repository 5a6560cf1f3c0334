"""What went wrong on the way to the server, or in it, in the words of the port."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from anarchon.errors import OutcomeUnknown, StoreError, StoreRefused, StoreUnavailable

#: A statement failed, and with it its transaction, for a reason that is none of the question's.
_PASSING = (
    *("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_FULL", "SQLITE_IOERR", "SQLITE_NOMEM"),
    *("SQLITE_INTERRUPT", "SQLITE_CANTOPEN", "SQLITE_PROTOCOL", "TRANSACTION_"),
)
#: Said to who we are, or to what we came for, until somebody mends it.
_REFUSED = ("SQLITE_READONLY", "AUTH_", "BLOCKED")
#: Found before anything was run.
_BEFOREHAND = (*_REFUSED, "SQL_", "ARGS_")
_IS_GONE = ("no such table: anarchon_", "no such table: main.anarchon_")


class LookLost(StoreUnavailable):
    """The connection ended before a look was answered."""


class StepFailed(StoreError):
    """The server refused a step of a batch; ``step`` is its number."""

    def __init__(self, store: str, step: int, problem: str, code: str) -> None:
        super().__init__(store, problem)
        self.step = step
        self.code = code

    @property
    def is_about_tables(self) -> bool:
        """Tell whether our tables are not there."""
        return any(text in self.problem for text in _IS_GONE)

    def as_undone(self) -> StoreError:
        """Return the error for a batch that was undone, or had nothing to undo."""
        kind: type[StoreError] = StoreError
        if self.is_about_tables or self.code.startswith(_PASSING):
            kind = StoreUnavailable
        elif self.code.startswith(_REFUSED):
            kind = StoreRefused
        return kind(self.store, self.problem)


@contextmanager
def translating(store: str, *, writes: bool) -> Iterator[None]:
    """Turn the driver's errors into ours; ``writes``: without an answer it may have happened."""
    try:
        yield
    except aiohttp.InvalidURL:
        # it quotes the address
        raise StoreRefused(store, "its address cannot be used") from None
    except UnicodeEncodeError as error:
        raise StoreError(store, f"a value cannot be kept: {error.reason}") from None
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
        kind, problem = _of_connecting(error)
        raise kind(store, problem) from error
    except (aiohttp.ClientError, OSError) as error:
        if writes:
            raise OutcomeUnknown(store, _of_asking(error)) from error
        # what speaks another language will go on doing so
        speaks = not isinstance(error, aiohttp.ClientResponseError)
        raise (LookLost if speaks else StoreRefused)(store, _of_asking(error)) from error


def _of_connecting(error: Exception) -> tuple[type[StoreError], str]:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return StoreRefused, f"its certificate cannot be trusted ({_told(error.certificate_error)})"
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        told = _told(error.os_error)
        return StoreRefused, f"no TLS there ({told}); without it: http+libsql://HOST:PORT"
    if not isinstance(error, aiohttp.ClientConnectorError):
        return StoreUnavailable, "no connection in time"
    cause = error.os_error
    unknown = isinstance(cause, socket.gaierror) and cause.errno != socket.EAI_AGAIN
    return StoreRefused if unknown else StoreUnavailable, _told(cause)


def _of_asking(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientResponseError):
        return "what answers does not speak HTTP, or only encrypted (libsql://)"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "it ended the connection without an answer"
    return _told(error)


def _told(error: BaseException) -> str:
    lines = str(error).splitlines()
    return lines[0][:300] if lines else type(error).__name__


@dataclass(frozen=True, slots=True)
class Answered:
    """What came back."""

    store: str
    writes: bool
    status: int
    body: bytes

    def check(self) -> None:
        """Raise for what is said instead of running a batch."""
        if self.status == 200:
            return
        said = self._said()
        told = f"HTTP {self.status}, {said}" if said else f"HTTP {self.status}"
        if self.status in (401, 403):
            problem = f"refused ({told}); the URL needs ?authToken= with the right to write"
            raise StoreRefused(self.store, problem)
        if self.status >= 500 or self.status in (408, 429):
            kind = OutcomeUnknown if self.writes else StoreUnavailable
            raise kind(self.store, told)
        if 300 <= self.status < 400:
            raise StoreRefused(self.store, f"redirects elsewhere ({told}); name that address")
        raise StoreRefused(self.store, f"no libSQL server answers there ({told})")

    def batch(self) -> dict[str, Any]:
        """Return what is said of the batch."""
        try:
            first = json.loads(self.body)["results"][0]
            if first["type"] == "error":
                raise self._failed(first["error"]["message"], first["error"].get("code") or "")
            batch: dict[str, Any] = first["response"]["result"]
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            raise self.not_understood() from None
        return batch

    def not_understood(self) -> StoreError:
        """Return the error for a body that no libSQL server sends."""
        if self.writes:
            return OutcomeUnknown(self.store, "its answer makes no sense")
        return StoreRefused(self.store, "what answers there is no libSQL server")

    def _failed(self, problem: str, code: str) -> StoreError:
        """Return the error for a batch that failed as a whole, as where a replica lost its way."""
        if code.startswith(_BEFOREHAND) or not self.writes:
            return StepFailed(self.store, 0, problem, code).as_undone()
        return OutcomeUnknown(self.store, problem)

    def _said(self) -> str:
        try:
            told = json.loads(self.body)
        except ValueError:
            return ""
        said = told.get("error") if isinstance(told, dict) else None
        return said[:300] if isinstance(said, str) else ""
