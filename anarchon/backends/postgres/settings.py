"""What a store's URL says, read and checked before anything is connected."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

from anarchon.backends.urls import is_torn, unreadable
from anarchon.errors import ConfigurationError

SCHEMA = "anarchon"
_LONGEST_NAME = 63

#: Options of libpq that the driver would hand to the server, which does not know them.
_NOT_OF_THE_DRIVER = frozenset(
    (
        *("channel_binding", "client_encoding", "gssencmode", "hostaddr", "keepalives"),
        *("keepalives_count", "keepalives_idle", "keepalives_interval", "load_balance_hosts"),
        *("require_auth", "requirepeer", "sslcompression", "sslsni", "tcp_user_timeout"),
    )
)

_TLS_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_TLS_FILES = frozenset({"sslcert", "sslcrl", "sslkey", "sslrootcert"})


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the store is: ``url`` for the driver, with the password; ``label`` to be shown."""

    url: str = field(repr=False)
    schema: str
    label: str
    connect_timeout: float = 10.0

    @classmethod
    def of(cls, url: str, schema: str | None = None) -> Settings:
        """Read a URL. Raises ``ConfigurationError``, in which no part of it is repeated."""
        try:
            parts = urlsplit(url)
        except ValueError:
            # its text quotes what may be a piece of a password
            raise unreadable("store") from None
        _check_place(url, parts)
        options = dict(parse_qsl(parts.query))
        named = options.pop("schema", None)
        if schema is not None and named not in (None, schema):
            raise _wrong("the URL and schema= name two schemas", "name it in one place")
        name = _checked_schema(schema or named or SCHEMA)
        timeout = _checked_timeout(options.pop("connect_timeout", "10"))
        for option in sorted(_NOT_OF_THE_DRIVER & options.keys()):
            raise _wrong(f"{option}= is not known to the driver asyncpg", f"leave {option}= out")
        _check_tls(options)
        options.setdefault("application_name", "anarchon")
        return cls(
            url=parts._replace(query=urlencode(options)).geturl(),
            schema=name,
            label=_label(parts, options, name),
            connect_timeout=timeout,
        )

    @property
    def quoted_schema(self) -> str:
        """The schema as SQL takes it."""
        return '"' + self.schema.replace('"', '""') + '"'


def _wrong(problem: str, fix: str) -> ConfigurationError:
    return ConfigurationError(problem, option="store", fix=fix)


def _check_place(url: str, parts: SplitResult) -> None:
    if parts.scheme not in ("postgres", "postgresql"):
        raise _wrong("the URL is not one of PostgreSQL", "write postgresql://")
    hosts = parts.netloc.rpartition("@")[2]
    ports = [place.rpartition("]")[2].partition(":")[2] for place in hosts.split(",")]
    # of several hosts, a piece of a password may pass for one or for its port
    torn = parts.netloc.count("@") > 1 or is_torn(url)
    if torn or any(port and not (port.isascii() and port.isdigit()) for port in ports):
        raise unreadable("store")


def _checked_schema(name: str) -> str:
    if "\0" in name or len(name.encode()) > _LONGEST_NAME or name.startswith("pg_"):
        raise ConfigurationError(
            f"{name!r} cannot be the name of a schema",
            option="schema",
            fix=f"take at most {_LONGEST_NAME} bytes, not starting with pg_",
        )
    return name


def _checked_timeout(text: str) -> float:
    if not text.isdigit():
        raise ConfigurationError(
            "is not a whole number of seconds", option="connect_timeout", fix="write 10"
        )
    # to libpq, no time at all means for ever
    return float(text) or 3600.0


def _check_tls(options: Mapping[str, str]) -> None:
    mode = options.get("sslmode")
    if mode is not None and mode not in _TLS_MODES:
        raise ConfigurationError(
            f"there is no {mode!r}", option="sslmode", fix=f"use one of {', '.join(_TLS_MODES)}"
        )
    for option in _TLS_FILES & options.keys():
        # the driver's error does not say which file it is
        if not os.access(options[option], os.R_OK):
            raise ConfigurationError(
                f"the file {options[option]} cannot be read", option=option, fix="name one that can"
            )


def _label(parts: SplitResult, options: Mapping[str, str], schema: str) -> str:
    login, _, hosts = parts.netloc.rpartition("@")
    user = login.partition(":")[0] or options.get("user", "")
    place = f"{user}@" if user else ""
    place += hosts or options.get("host", "")
    database = parts.path.lstrip("/") or options.get("dbname") or options.get("database", "")
    shown = f"?schema={schema}" if schema != SCHEMA else ""
    return f"postgresql://{place}/{database}{shown}"
