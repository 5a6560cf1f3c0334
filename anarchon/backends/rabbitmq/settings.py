"""What a store's URL says, read and checked before anything is connected."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from anarchon.backends.rabbitmq.names import LONGEST_VHOST
from anarchon.backends.urls import is_torn, unreadable
from anarchon.errors import ConfigurationError

_PORTS = {"amqp": 5672, "amqps": 5671}
_QUEUE_TYPES = ("classic", "quorum")
#: As RabbitMQ's own clients call them.
_TLS_FILES = ("cacertfile", "certfile", "keyfile")
_TLS = (*_TLS_FILES, "verify", "server_name_indication")


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the store is, and how its queues are made; ``label`` is how it is shown."""

    label: str
    host: str
    port: int
    user: str
    password: str = field(repr=False)
    vhost: str
    queue_type: str
    tls: dict[str, Any] | None

    @classmethod
    def of(cls, url: str) -> Settings:
        """Read a URL. Raises ``ConfigurationError``, in which no part of a password is repeated."""
        parts, port = _split(url)
        options = _options(parts)
        vhost = unquote(parts.path[1:]) or "/"
        if len(vhost.encode()) > LONGEST_VHOST:
            raise _wrong(
                "the name of the virtual host is too long to tell who has a slot",
                f"take one of at most {LONGEST_VHOST} bytes",
            )
        host = parts.hostname or "localhost"
        shown = f"[{host}]" if ":" in host else host
        port = port or _PORTS[parts.scheme]
        return cls(
            # neither user nor query: people put passwords in both
            label=f"{parts.scheme}://{shown}:{port}/{quote(vhost, safe='')}",
            host=shown,
            port=port,
            user=unquote(parts.username or "guest"),
            password=unquote("guest" if parts.password is None else parts.password),
            vhost=vhost,
            queue_type=_queue_type(options),
            tls=_tls(options, host) if parts.scheme == "amqps" else None,
        )


def _wrong(problem: str, fix: str, option: str = "store") -> ConfigurationError:
    return ConfigurationError(problem, option=option, fix=fix)


def _split(url: str) -> tuple[SplitResult, int | None]:
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError:
        # its text quotes what may be a piece of a password
        raise unreadable("store") from None
    if parts.scheme not in _PORTS:
        raise _wrong("the URL is not one of RabbitMQ", "write amqp:// or amqps://")
    if is_torn(url):
        raise unreadable("store")
    return parts, port


def _options(parts: SplitResult) -> dict[str, str]:
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    known = ("queue_type", *(_TLS if parts.scheme == "amqps" else ()))
    for name in options:
        if name not in known:
            raise _wrong(
                f"unknown option {name!r} in the URL",
                "TLS needs amqps://" if name in _TLS else f"known are {', '.join(known)}",
            )
    return options


def _queue_type(options: dict[str, str]) -> str:
    chosen = options.get("queue_type", "classic")
    if chosen not in _QUEUE_TYPES:
        raise _wrong(
            f"{chosen!r} cannot hold claims", f"write {' or '.join(_QUEUE_TYPES)}", "queue_type"
        )
    return chosen


def _tls(options: dict[str, str], host: str) -> dict[str, Any]:
    for name in _TLS_FILES:
        if name in options and not Path(options[name]).is_file():
            raise _wrong(
                f"there is no file {options[name]!r}", "write the path of a PEM file", name
            )
    if options.get("verify", "verify_peer") not in ("verify_peer", "verify_none"):
        raise _wrong(
            f"{options['verify']!r} is unknown", "write verify_peer or verify_none", "verify"
        )
    files = {
        "ca_certs": options.get("cacertfile"),
        "certfile": options.get("certfile"),
        "keyfile": options.get("keyfile"),
    }
    if options.get("verify") == "verify_none":
        return {**files, "cert_reqs": ssl.CERT_NONE}
    name = options.get("server_name_indication", host)
    return {**files, "cert_reqs": ssl.CERT_REQUIRED, "server_hostname": name}
