"""One connection of the driver's, on which many requests are answered at once, in any order.

Whoever loses it hears of it at once, and so does whoever may not send what he has sent: the server
tells of both, but not in an answer.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from nats.aio.msg import Msg
from nats.errors import Error as DriverError

from anarchon.backends.nats.client import Client, PlainText
from anarchon.backends.nats.settings import Settings

#: For each server that does not answer, in seconds.
_CONNECT_TIMEOUT = 3
#: So that a connection which nobody uses is not kept long after its end, in seconds.
_PING_INTERVAL = 30

_INBOX = "_INBOX.anarchon"
_NOBODY = "503"
_DENIED = "permissions violation"


@dataclass(frozen=True, slots=True)
class Request:
    """A message that is answered."""

    subject: str
    payload: bytes = b""
    headers: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: a body, or the status that stands for none."""

    body: bytes
    headers: Mapping[str, str]

    @property
    def status(self) -> str | None:
        """The code of an answer without a body, such as 404; 503: nobody listens there."""
        return self.headers.get("Status")

    @property
    def reaches_nobody(self) -> bool:
        return self.status == _NOBODY

    def json(self) -> dict[str, Any]:
        """Return the body; raises ``ValueError`` if it is no object of JSON."""
        read = json.loads(self.body)
        if not isinstance(read, dict):
            raise ValueError("not an object")
        return read


class Lost(Exception):
    """The connection ended, or the server refused a request, before all was answered."""


class Denied(Lost):
    """This user may not do what was asked."""


class Connection:
    """A connection of the driver's, and what is waited for on it."""

    def __init__(self) -> None:
        self.client = Client()
        self._inbox = f"{_INBOX}.{secrets.token_hex(8)}"
        self._is_connecting = True
        self._count = 0
        self._awaited: dict[str, int] = {}
        self._answers: list[Answer | None] = []
        self._requests: Sequence[Request] = ()
        self._done: asyncio.Future[None] | None = None
        self._trouble: Exception | None = None
        self._is_denied = False

    async def connect(self, server: str, settings: Settings) -> None:
        """Connect and log in. Raises what the driver does, or ``ConfigurationError``."""
        await self.client.connect(
            server,
            name="anarchon",
            error_cb=self._hear_of,
            closed_cb=self._hear_of_the_end,
            allow_reconnect=False,
            connect_timeout=_CONNECT_TIMEOUT,
            ping_interval=_PING_INTERVAL,
            **settings.options(),
        )
        self._is_connecting = False
        await self.client.subscribe(f"{self._inbox}.*", cb=self._hear)

    @property
    def is_alive(self) -> bool:
        return self.client.is_connected

    async def exchange(self, requests: Sequence[Request]) -> list[Answer]:
        """Send requests together and return the answers in their order; raises ``Lost``."""
        if not requests:
            return []
        self._requests, self._answers = requests, [None] * len(requests)
        self._awaited = {str(self._count + at): at for at in range(len(requests))}
        start, self._count = self._count, self._count + len(requests)
        with self._waiting() as done:
            for at, request in enumerate(requests):
                headers = None if request.headers is None else dict(request.headers)
                reply = f"{self._inbox}.{start + at}"
                await self.client.publish(request.subject, request.payload, reply, headers)
            await done
        return [answer for answer in self._answers if answer is not None]

    async def gather(self, ask: Callable[[str], Awaitable[int]]) -> list[Msg]:
        """Return messages that are sent to a subject of ours; ``ask`` has so many sent there."""
        heard: list[Msg] = []
        wanted: int | None = None

        async def hear(message: Msg) -> None:
            heard.append(message)
            if len(heard) == wanted and self._done is not None and not self._done.done():
                self._done.set_result(None)

        self._count += 1
        inbox = f"{self._inbox}m.{self._count}"
        subscription = await self.client.subscribe(inbox, cb=hear)
        wanted = await ask(inbox)
        if len(heard) < wanted:
            with self._waiting() as done:
                await done
        await subscription.unsubscribe()
        return heard

    @contextmanager
    def _waiting(self) -> Iterator[asyncio.Future[None]]:
        """Give what is done once all is there, or fails with ``Lost``."""
        done = self._done = asyncio.get_running_loop().create_future()
        if not self.is_alive or self._is_denied:
            self._give_up()
        try:
            yield done
        except DriverError as error:
            raise Lost(told(error)) from error
        finally:
            self._done = None
            if done.done() and not done.cancelled():
                # of a failure that nobody came to wait for, asyncio would warn
                done.exception()

    async def _hear(self, message: Msg) -> None:
        at = self._awaited.pop(message.subject.rpartition(".")[2], None)
        if at is None:
            return
        self._answers[at] = Answer(message.data, message.headers or {})
        if not self._awaited and self._done is not None and not self._done.done():
            self._done.set_result(None)

    async def _hear_of(self, error: Exception) -> None:
        if self._is_connecting:
            # the driver would go on, with the same server
            raise error
        self._trouble = error
        if _DENIED in str(error):
            # it may be about what was sent before anybody waited, too
            self._is_denied = True
            self._give_up()

    async def _hear_of_the_end(self) -> None:
        self._give_up()

    def _give_up(self) -> None:
        if self._done is None or self._done.done():
            return
        kind = Denied if self._is_denied else Lost
        self._done.set_exception(kind(self._said()))

    def _said(self) -> str:
        if self._trouble is None:
            return "the connection ended"
        text = told(self._trouble)
        if _DENIED not in text:
            return text
        if "subscription" in text:
            return f"this user may not subscribe to {_INBOX}.>"
        # the driver tells of it in small letters
        for request in self._requests:
            if f'"{request.subject.lower()}"' in text:
                return f"this user may not publish to {request.subject}"
        return text

    async def end(self) -> None:
        """Let the driver end what it has running; the connection is to be reset before."""
        try:
            await self.client.close()
        except (DriverError, OSError):
            pass  # it is reset already


def told(error: BaseException) -> str:
    """Say what the driver says, in one short line."""
    said = " ".join(str(error).split()).removeprefix("nats: ").strip("'")[:300]
    if _is_of_login(said):
        return f"the login was refused ({said})"
    if isinstance(error, socket.gaierror):
        return f"its host cannot be found ({said})"
    if isinstance(error, TimeoutError) and error.errno is None:
        return f"nothing there answered as NATS does within {_CONNECT_TIMEOUT} s"
    return said or type(error).__name__


def is_lasting(error: BaseException) -> bool:
    """Tell whether whoever connects again will hear the same, until somebody mends it."""
    if isinstance(error, socket.gaierror):
        return error.errno != socket.EAI_AGAIN
    if isinstance(error, ssl.SSLCertVerificationError | PlainText):
        return True
    return _is_of_login(str(error))


def _is_of_login(said: str) -> bool:
    return "authorization violation" in said.lower()
