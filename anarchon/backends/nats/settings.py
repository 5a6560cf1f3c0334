"""What a store URL says: where the servers are, how to reach them, and how to show them."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from nats.aio.client import RawCredentials

from anarchon.backends.urls import is_torn, unreadable
from anarchon.durations import duration
from anarchon.errors import ConfigurationError

_PORT = 4222
_SCHEMES = ("nats", "tls")
_OPTIONS = ("creds", "nkey", "remember", "replicas")
_TLS_OPTIONS = (
    "tls_ca_certs",
    "tls_certfile",
    "tls_handshake_first",
    "tls_hostname",
    "tls_keyfile",
)
_CREDENTIALS = ("BEGIN NATS USER JWT", "BEGIN USER NKEY SEED")

#: How long a claim is remembered where the URL says nothing.
REMEMBER = timedelta(hours=24)
#: Beside twice the time a slot has: clocks of several servers, and the server's own lateness.
_MARGIN = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Settings:
    """How to connect, and what is wanted of the streams.

    ``replicas`` is ``None`` where whoever made the streams decides.
    """

    label: str
    servers: tuple[str, ...]
    login: Mapping[str, str] = field(repr=False)
    tls: Mapping[str, str] = field(repr=False)
    remember: timedelta = REMEMBER
    replicas: int | None = None

    def remembers(self, within: timedelta) -> timedelta:
        """Return for how long a claim is kept whose slot has so much time to start."""
        return max(self.remember, 2 * within + _MARGIN)

    def options(self) -> dict[str, Any]:
        """Return what the driver takes to log in.

        Raises ``ConfigurationError`` for files that cannot be used; they are read each time,
        since what is in them is replaced while a process lives.
        """
        return {**_login(self.login), **_tls(self.tls)}


def read_url(url: str) -> Settings:
    """Read a store URL; raises ``ConfigurationError``, whose text holds nothing of a password."""
    parts, login, hosts = _split(url)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    known = {*_OPTIONS, *(_TLS_OPTIONS if parts.scheme == "tls" else ())}
    for name in options:
        if name not in known:
            raise ConfigurationError(
                f"unknown option {name!r} in the URL",
                option="store",
                fix="TLS needs tls://"
                if name in _TLS_OPTIONS
                else f"known are {', '.join(sorted(known))}",
            )
    settings = Settings(
        label=f"{parts.scheme}://{','.join(hosts)}",
        servers=tuple(f"{parts.scheme}://{host}" for host in hosts),
        login=login | {name: options[name] for name in ("creds", "nkey") if name in options},
        tls={name: value for name, value in options.items() if name in _TLS_OPTIONS},
        remember=duration(options["remember"], option="remember")
        if "remember" in options
        else REMEMBER,
        replicas=_replicas(options.get("replicas")),
    )
    settings.options()
    return settings


def _split(url: str) -> tuple[SplitResult, dict[str, str], list[str]]:
    if url.strip().partition("://")[0].lower() not in _SCHEMES:
        raise ConfigurationError(
            "the URL is not one of NATS", option="store", fix="write nats://HOST:PORT or tls://"
        )
    try:
        parts = urlsplit(url.strip())
    except ValueError:
        # its text quotes what may be a piece of a password
        raise unreadable("store") from None
    login, _, places = parts.netloc.rpartition("@")
    hosts = [_host(place) for place in places.split(",")]
    if is_torn(url) or "@" in login or None in hosts:
        raise unreadable("store")
    if parts.path.strip("/"):
        raise ConfigurationError(
            "a path in the URL means nothing to NATS",
            option="store",
            fix="write nats://HOST:PORT, and a / in a password as %2F",
        )
    user, colon, password = login.partition(":")
    if not login:
        given = {}
    elif colon:
        given = {"user": unquote(user), "password": unquote(password)}
    else:
        given = {"token": unquote(user)}
    return parts, given, [host for host in hosts if host is not None]


def _host(place: str) -> str | None:
    """Return a host with its port; none where it is not one for certain."""
    host, _, port = place.rpartition(":")
    if not host or place.endswith("]"):
        host, port = place.rstrip(":"), str(_PORT)
    port = port or str(_PORT)
    if not (port.isascii() and port.isdecimal()) or int(port) > 65535:
        return None
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not bare or (":" in bare and bare == host) or "[" in bare or "]" in bare:
        return None
    return f"{host}:{port}"


def _replicas(given: str | None) -> int | None:
    if given is None:
        return None
    if given not in {"1", "2", "3", "4", "5"}:
        raise ConfigurationError(
            "is not a number of servers", option="replicas", fix="write 1, 3 or 5, or leave it out"
        )
    return int(given)


def _login(given: Mapping[str, str]) -> dict[str, Any]:
    options: dict[str, Any] = {
        name: value for name, value in given.items() if name not in ("creds", "nkey")
    }
    if ("creds" in given or "nkey" in given) and find_spec("nkeys") is None:
        raise ConfigurationError(
            "signing in with a key needs the package nkeys",
            option="store",
            fix="type: pip install nkeys",
        )
    if "creds" in given:
        text = _read(given["creds"], "creds")
        # the driver would look for these lines for ever
        if any(line not in text for line in _CREDENTIALS):
            raise ConfigurationError(
                f"{given['creds']} holds no credentials of NATS",
                option="creds",
                fix="name a file with a user's JWT and seed, as `nsc generate creds` writes it",
            )
        options["user_credentials"] = RawCredentials(text)
    if "nkey" in given:
        seed = _read(given["nkey"], "nkey").strip()
        _check_seed(seed, given["nkey"])
        options["nkeys_seed_str"] = seed
    return options


def _check_seed(seed: str, path: str) -> None:
    import nkeys  # not a dependency: only here, and only where a key is named

    try:
        nkeys.from_seed(bytearray(seed.encode())).wipe()
    except Exception:  # of several kinds, and some quote the seed
        raise ConfigurationError(
            f"{path} holds no seed of a key",
            option="nkey",
            fix="name a file with a user's seed in it, which begins with SU",
        ) from None


def _read(path: str, option: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ConfigurationError(
            f"{path} cannot be read ({reason})", option=option, fix="name a file of this machine"
        ) from error


def _tls(given: Mapping[str, str]) -> dict[str, Any]:
    if not given:
        return {}
    try:
        context = ssl.create_default_context(cafile=given.get("tls_ca_certs"))
        if "tls_certfile" in given:
            context.load_cert_chain(given["tls_certfile"], given.get("tls_keyfile"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"the files for TLS cannot be used ({error})",
            option="store",
            fix="name files of this machine in tls_ca_certs, tls_certfile and tls_keyfile",
        ) from error
    options: dict[str, Any] = {"tls": context}
    if "tls_hostname" in given:
        options["tls_hostname"] = given["tls_hostname"]
    if "tls_handshake_first" in given:
        options["tls_handshake_first"] = _yes_or_no(given["tls_handshake_first"])
    return options


def _yes_or_no(value: str) -> bool:
    if value not in {"true", "false"}:
        raise ConfigurationError(
            "is neither true nor false", option="tls_handshake_first", fix="write true or false"
        )
    return value == "true"
