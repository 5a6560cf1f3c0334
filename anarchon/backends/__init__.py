"""The adapters, one a store, and the one function that picks among them.

Nothing outside this package imports a driver, and no adapter knows another.
"""

from __future__ import annotations

import re
from importlib import import_module
from operator import attrgetter

from anarchon.claim_store import AnyBackend
from anarchon.errors import MissingExtra, UnknownBackend

#: scheme of the URL: (module, what makes a backend of the URL, extra that brings the driver)
_SCHEMES = {
    "memory": ("anarchon.backends.memory", "MemoryBackend.from_url", None),
    "sqlite": ("anarchon.backends.sqlite", "SQLiteBackend.from_url", None),
    **dict.fromkeys(
        ("libsql", "https+libsql", "http+libsql"),
        ("anarchon.backends.libsql", "LibSQLBackend.from_url", "libsql"),
    ),
    "redis": ("anarchon.backends.redis", "open_url", "redis"),
    "rediss": ("anarchon.backends.redis", "open_url", "redis"),
    "unix": ("anarchon.backends.redis", "open_url", "redis"),
    "valkey": ("anarchon.backends.redis", "open_url", "redis"),
    "valkeys": ("anarchon.backends.redis", "open_url", "redis"),
    **dict.fromkeys(
        ("redis+sentinel", "rediss+sentinel", "valkey+sentinel", "valkeys+sentinel"),
        ("anarchon.backends.redis", "open_url", "redis"),
    ),
    **dict.fromkeys(
        ("redis+cluster", "rediss+cluster", "valkey+cluster", "valkeys+cluster"),
        ("anarchon.backends.redis", "open_url", "redis"),
    ),
    "postgres": ("anarchon.backends.postgres", "PostgresBackend.from_url", "postgres"),
    "postgresql": ("anarchon.backends.postgres", "PostgresBackend.from_url", "postgres"),
    "amqp": ("anarchon.backends.rabbitmq", "RabbitMQBackend.from_url", "rabbitmq"),
    "amqps": ("anarchon.backends.rabbitmq", "RabbitMQBackend.from_url", "rabbitmq"),
    "nats": ("anarchon.backends.nats", "NatsBackend.from_url", "nats"),
    "tls": ("anarchon.backends.nats", "NatsBackend.from_url", "nats"),
}

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def open_backend(url: str) -> AnyBackend:
    """Return the backend for a store URL; connects nowhere yet.

    Raises ``UnknownBackend`` for a scheme nobody answers to, ``MissingExtra`` if the driver
    is not installed, and ``ConfigurationError`` for settings the backend cannot read, or a
    backend of another distribution that cannot be used.
    """
    # not by a parser of URLs: its errors quote what may be a password
    scheme = url.strip().partition(":")[0].lower()
    if scheme not in _SCHEMES:
        # not at the top: reading what is installed takes more time to import than all of ours
        from anarchon.backends.installed import installed_schemes, open_installed

        installed = open_installed(scheme, url)
        if installed is not None:
            return installed
        known = ", ".join(f"{name}://" for name in dict.fromkeys((*_SCHEMES, *installed_schemes())))
        named = _SCHEME.match(url.strip())
        raise UnknownBackend(
            f"no backend answers to {named[0].lower() if named else 'a URL without a scheme'}",
            option="store",
            fix=f"use one of {known}",
        )
    module, name, extra = _SCHEMES[scheme]
    try:
        adapter = import_module(module)
    except ModuleNotFoundError as error:
        if extra is None or (error.name or "").startswith("anarchon"):
            raise
        raise MissingExtra(
            f"the driver for {scheme}:// is not installed",
            option="store",
            fix=f"type: pip install 'anarchon[{extra}]'",
        ) from error
    backend: AnyBackend = attrgetter(name)(adapter)(url)
    return backend
