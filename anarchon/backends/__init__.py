"""The adapters, one a store, and the one function that picks among them.

Nothing outside this package imports a driver, and no adapter knows another.
"""

from __future__ import annotations

import re
from importlib import import_module

from anarchon.errors import MissingExtra, UnknownBackend
from anarchon.store import Backend

#: scheme of the URL: (module, class, extra that brings the driver)
_SCHEMES = {
    "memory": ("anarchon.backends.memory", "MemoryBackend", None),
    "sqlite": ("anarchon.backends.sqlite", "SQLiteBackend", None),
    "redis": ("anarchon.backends.redis", "RedisBackend", "redis"),
    "rediss": ("anarchon.backends.redis", "RedisBackend", "redis"),
    "unix": ("anarchon.backends.redis", "RedisBackend", "redis"),
    "valkey": ("anarchon.backends.redis", "RedisBackend", "redis"),
    "valkeys": ("anarchon.backends.redis", "RedisBackend", "redis"),
    "postgres": ("anarchon.backends.postgres", "PostgresBackend", "postgres"),
    "postgresql": ("anarchon.backends.postgres", "PostgresBackend", "postgres"),
}

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def open_backend(url: str) -> Backend:
    """Return the backend for a store URL; connects nowhere yet.

    Raises ``UnknownBackend`` for a scheme nobody answers to, ``MissingExtra`` if the driver
    is not installed, and ``ConfigurationError`` for settings the backend cannot read.
    """
    # not by a parser of URLs: its errors quote what may be a password
    scheme = url.strip().partition(":")[0].lower()
    if scheme not in _SCHEMES:
        known = ", ".join(f"{name}://" for name in _SCHEMES)
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
    backend: Backend = getattr(adapter, name).from_url(url)
    return backend
