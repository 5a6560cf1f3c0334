"""Redis as a Celery project spells it, told as the URL of a store."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from urllib.parse import parse_qsl, urlencode, urlsplit

from anarchon import ConfigurationError
from anarchon.backends.urls import is_torn, unreadable

_FIX = 'set anarchon_store to the URL of one server, such as "redis://HOST:6379/0"'
_REDIS = ("redis", "rediss")
_SOCKETS = ("redis+socket", "socket", "unix")
#: All else in such a URL is about Celery's own client: visibility timeouts, pools, prefixes.
_KEPT = ("db", "password", "username")
_TLS = (
    "ssl_ca_certs",
    "ssl_ca_data",
    "ssl_ca_path",
    "ssl_cert_reqs",
    "ssl_certfile",
    "ssl_check_hostname",
    "ssl_keyfile",
    "ssl_password",
)
_REQUIREMENTS: dict[object, str] = {
    ssl.CERT_NONE: "none",
    ssl.CERT_OPTIONAL: "optional",
    ssl.CERT_REQUIRED: "required",
    "CERT_NONE": "none",
    "CERT_OPTIONAL": "optional",
    "CERT_REQUIRED": "required",
}


def store_in(option: str, urls: object, use_ssl: object) -> str | None:
    """Return the store's URL in a broker or result backend setting, ``None`` if it is no Redis.

    Raises ``ConfigurationError`` for a Redis that cannot be reached by one URL of ours.
    """
    if not urls or not isinstance(urls, str | list | tuple):
        return None
    listed = urls.split(";") if isinstance(urls, str) else [str(url) for url in urls]
    schemes = {url.partition("://")[0] for url in listed}
    if any(scheme.startswith("sentinel") for scheme in schemes):
        raise ConfigurationError("sentinel:// is not supported yet", option=option, fix=_FIX)
    if schemes.isdisjoint((*_REDIS, *_SOCKETS)):
        return None
    if len(listed) > 1:
        # Two servers that know nothing of each other would each let one instance win.
        raise ConfigurationError(
            f"{len(listed)} servers cannot be one store", option=option, fix=_FIX
        )
    if is_torn(listed[0]):
        raise unreadable(option)
    try:
        return _translated(listed[0], use_ssl)
    except ValueError:
        raise unreadable(option) from None


def _translated(url: str, use_ssl: object) -> str:
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    if parts.scheme in _SOCKETS:
        database = query.get("db") or query.get("virtual_host", "0").strip("/")
        kept = {"db": database}
        kept.update((name, query[name]) for name in ("password", "username") if name in query)
        return f"unix://{parts.path}?{urlencode(kept)}"
    tls: Mapping[str, object] = use_ssl if isinstance(use_ssl, Mapping) else {}
    encrypted = parts.scheme == "rediss" or bool(use_ssl)
    kept = {name: query[name] for name in _KEPT if name in query}
    if encrypted:
        for name in _TLS:
            value = query.get(name, tls.get(name))
            if value is not None:
                kept[name] = str(_REQUIREMENTS.get(value, value))
    path = "/" + parts.path.strip("/")
    scheme = "rediss" if encrypted else "redis"
    told = parts._replace(scheme=scheme, path=path, query=urlencode(kept), fragment="")
    return told._replace(netloc=parts.netloc or "localhost").geturl()
