"""What a store URL says: where the server is, how to reach it, and how to show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias
from urllib.parse import SplitResult, parse_qsl, urlsplit

from redis.asyncio.connection import AbstractConnection, Connection, SSLConnection, parse_url
from redis.asyncio.connection import UnixDomainSocketConnection as UnixConnection
from redis.exceptions import RedisError

from anarchon.backends.redis.claim_modes import LEASE, Mode, mode_named
from anarchon.backends.urls import is_torn, unreadable
from anarchon.errors import ConfigurationError

Address: TypeAlias = tuple[str, int]


class Shape(StrEnum):
    """What stands behind a URL."""

    SERVER = "server"
    SENTINEL = "sentinel"
    CLUSTER = "cluster"


_SCHEMES: dict[str, tuple[str, type[AbstractConnection]]] = {
    "redis": ("redis", Connection),
    "rediss": ("rediss", SSLConnection),
    "valkey": ("redis", Connection),
    "valkeys": ("rediss", SSLConnection),
    "unix": ("unix", UnixConnection),
}

_PASSED_ON = {
    "client_name",
    "db",
    "health_check_interval",
    "password",
    "protocol",
    "socket_connect_timeout",
    "socket_keepalive",
    "socket_read_size",
    "socket_timeout",
    "username",
}
_PASSED_ON_TLS = {
    "ssl_ca_certs",
    "ssl_ca_data",
    "ssl_ca_path",
    "ssl_cert_reqs",
    "ssl_certfile",
    "ssl_check_hostname",
    "ssl_ciphers",
    "ssl_exclude_verify_flags",
    "ssl_include_verify_flags",
    "ssl_keyfile",
    "ssl_min_version",
    "ssl_password",
}
_OURS = {"mode", "wait_replicas"}
#: redis-py knows them, so a URL shared with other clients may hold them; they are about
#: pools, retries and texts, which are settled here.
_NOT_OURS = {
    "decode_responses",
    "encoding",
    "encoding_errors",
    "legacy_responses",
    "max_connections",
    "retry_on_error",
    "retry_on_timeout",
    "timeout",
}


@dataclass(frozen=True, slots=True)
class Settings:
    """How to connect; ``secrets`` are the texts that may appear in no message.

    ``wait_replicas`` is how many replicas must have what was granted before anybody acts on it.
    ``places`` are the addresses of sentinels, or of some nodes of a cluster; ``service`` and
    ``login`` are what the sentinels call the server, and how to connect to them.
    """

    label: str
    connection_class: type[AbstractConnection] = field(repr=False)
    options: dict[str, Any] = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)
    wait_replicas: int = 0
    mode: Mode = LEASE
    shape: Shape = Shape.SERVER
    places: tuple[Address, ...] = ()
    service: str = ""
    login: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def new_connection(self, address: Address | None = None) -> AbstractConnection:
        """Return a connection to the server of the URL, or to one at this address."""
        return self.connection_class(**{**self.options, **_at(address)})

    def new_connection_to_sentinel(self, address: Address) -> AbstractConnection:
        return self.connection_class(**{**self.login, **_at(address)})


def _at(address: Address | None) -> dict[str, Any]:
    return {} if address is None else {"host": address[0], "port": address[1]}


def read_url(url: str, *, also: frozenset[str] = frozenset()) -> Settings:
    """Read the URL of one server; ``also`` are options that a caller has read and taken out.

    Raises ``ConfigurationError``, whose text holds nothing of a password.
    """
    parts, port = _split(url)
    scheme, connection_class = _SCHEMES[parts.scheme]
    _check(parts, also)
    try:
        parsed = dict(parse_url(parts._replace(scheme=scheme).geturl()))
    except ValueError as error:
        # its text names the option and not the value
        raise ConfigurationError(str(error), option="store") from None
    parsed.pop("connection_class", None)
    options: dict[str, Any] = {
        # a deadline comes from whoever calls, by cancellation
        "socket_timeout": None,
        "socket_connect_timeout": 5.0,
        "socket_keepalive": True,
        # nothing here needs the third protocol, and some proxies do not know it
        "protocol": 2,
        **{name: value for name, value in parsed.items() if name not in _NOT_OURS | _OURS},
        "decode_responses": True,
        # a handler's error may hold the pieces of a file name that is not UTF-8
        "encoding_errors": "surrogatepass",
    }
    if connection_class is UnixConnection:
        options.pop("socket_keepalive")
    secrets = tuple(str(options[name]) for name in ("password", "ssl_password") if name in options)
    label = _label(parts, port, options)
    settings = Settings(
        label, connection_class, options, secrets, _wait_replicas(parts), _mode(parts)
    )
    try:
        settings.new_connection()
    except (RedisError, TypeError, ValueError) as error:
        raise ConfigurationError(str(error), option="store") from None
    return settings


def _split(url: str) -> tuple[SplitResult, int | None]:
    if url.strip().partition("://")[0].lower() not in _SCHEMES:
        raise ConfigurationError(
            "the URL is not one of Redis",
            option="store",
            fix=f"use one of {', '.join(name + '://' for name in _SCHEMES)}",
        )
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        # the error's own text may hold a piece of a password with a slash or a bracket in it
        raise unreadable("store") from None
    if is_torn(url):
        raise unreadable("store")
    return parts, port


def _check(parts: SplitResult, also: frozenset[str]) -> None:
    tls = _SCHEMES[parts.scheme][1] is SSLConnection
    known = _PASSED_ON | (_PASSED_ON_TLS if tls else set())
    for name, _ in parse_qsl(parts.query, keep_blank_values=True):
        if name not in known | _NOT_OURS | _OURS:
            raise ConfigurationError(
                f"unknown option {name!r} in the URL",
                option="store",
                fix="TLS needs rediss://"
                if name in _PASSED_ON_TLS
                else f"known are {', '.join(sorted(known | _OURS | also))}",
            )
    if parts.scheme == "unix":
        if not parts.path:
            raise ConfigurationError(
                "the path of the socket is missing", option="store", fix="write unix:///PATH?db=DB"
            )
    elif parts.path.strip("/") and not parts.path.strip("/").isdecimal():
        # redis-py would take database 0 without a word
        raise ConfigurationError(
            "the database must be a number",
            option="store",
            fix=f"write {parts.scheme}://HOST:PORT/0, and a / in a password as %2F",
        )


def _wait_replicas(parts: SplitResult) -> int:
    # redis-py drops what is empty, which would be no replicas without a word
    given = [v for n, v in parse_qsl(parts.query, keep_blank_values=True) if n == "wait_replicas"]
    return max(map(checked_count, given), default=0)


def checked_count(given: object) -> int:
    """Return how many replicas to wait for; raises ``ConfigurationError`` if it is no number."""
    text = str(given)
    if isinstance(given, bool) or not (text.isascii() and text.isdecimal()):
        raise ConfigurationError(
            "is not a whole number",
            option="wait_replicas",
            fix="write how many replicas must have a claim before it counts, such as 1, or leave"
            " it out",
        )
    return int(text)


def _mode(parts: SplitResult) -> Mode:
    given = [v for n, v in parse_qsl(parts.query, keep_blank_values=True) if n == "mode"]
    modes = [mode_named(value) for value in given]
    return modes[-1] if modes else LEASE


def _label(parts: SplitResult, port: int | None, options: dict[str, Any]) -> str:
    # neither user nor query: people put passwords in both
    db = options.get("db", 0)
    if parts.scheme == "unix":
        return f"unix://{options['path']}" + (f"?db={db}" if db else "")
    host = str(options.get("host", "localhost"))
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{port or 6379}/{db}"
