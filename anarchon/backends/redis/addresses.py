"""URLs of a store, also those that name several servers: sentinels, or nodes of a cluster.

What such a URL says besides is read as the URL of one server is, and holds for all of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NoReturn
from urllib.parse import parse_qsl, urlencode

from anarchon.backends.redis.settings import Address, Settings, Shape, read_url
from anarchon.backends.urls import is_torn, unreadable
from anarchon.errors import ConfigurationError

#: Scheme: that of one server, and what is named in its place.
_SCHEMES = {
    f"{single}+{shape}": (single, shape)
    for shape in (Shape.SENTINEL, Shape.CLUSTER)
    for single in ("redis", "rediss", "valkey", "valkeys")
}
_PORTS = {Shape.SENTINEL: 26379, Shape.CLUSTER: 6379}
_PARTS = re.compile(
    r"(?P<login>[^/?#@]*@)?(?P<hosts>[^/?#@]*)(?:/(?P<path>[^?#]*))?(?:\?(?P<query>[^#]*))?"
)
_HOST = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[^:\[\]]+))(?::(?P<port>\d{1,5}))?")
_OF_SENTINELS = {"sentinel_username": "username", "sentinel_password": "password"}
#: The database, and who logs in there, are the servers'.
_OF_SERVERS = {"db", "username", "password", "client_name", "host", "port"}


def read_store_url(url: str) -> Settings:
    """Read a store URL; raises ``ConfigurationError``, whose text holds nothing of a password."""
    scheme, _, rest = url.strip().partition("://")
    if scheme.lower() not in _SCHEMES:
        return read_url(url)
    single, shape = _SCHEMES[scheme.lower()]
    parts = _PARTS.fullmatch(rest)
    if parts is None or is_torn(url):
        raise unreadable("store")
    places = _addresses(shape, parts["hosts"])
    service, db = _path(scheme.lower(), shape, (parts["path"] or "").strip("/"))
    query = parse_qsl(parts["query"] or "", keep_blank_values=True)
    own = set(_OF_SENTINELS) if shape is Shape.SENTINEL else set()
    left = urlencode([pair for pair in query if pair[0] not in own])
    # the host is one that every parser of URLs can read, and that nobody is led to
    plain = f"{single}://{parts['login'] or ''}localhost/{db}?{left}"
    settings = read_url(plain, also=frozenset(own))
    if shape is Shape.CLUSTER and settings.options.get("db"):
        raise _no_database(scheme.lower())
    login = {name: value for name, value in settings.options.items() if name not in _OF_SERVERS}
    login |= {_OF_SENTINELS[name]: value for name, value in query if name in own}
    hosts = ",".join(f"{f'[{host}]' if ':' in host else host}:{port}" for host, port in places)
    tail = f"/{service}/{settings.options.get('db', 0)}" if shape is Shape.SENTINEL else ""
    return replace(
        settings,
        label=f"{scheme.lower()}://{hosts}{tail}",
        secrets=(*settings.secrets, *_secrets(login)),
        shape=shape,
        places=places,
        service=service,
        login=login,
    )


def _secrets(login: dict[str, Any]) -> Sequence[str]:
    return [login["password"]] if login.get("password") else []


def _addresses(shape: Shape, hosts: str) -> tuple[Address, ...]:
    found = []
    for host in hosts.split(","):
        match = _HOST.fullmatch(host.strip())
        port = int(match["port"] or _PORTS[shape]) if match else 0
        if match is None or not 0 < port < 65536:
            # not the text itself: it may be a piece of a password
            _refuse_hosts(shape)
        found.append((match["six"] or match["name"], port))
    return tuple(dict.fromkeys(found))


def _refuse_hosts(shape: Shape) -> NoReturn:
    of = "sentinels" if shape is Shape.SENTINEL else "nodes"
    path = "/SERVICE" if shape is Shape.SENTINEL else ""
    raise ConfigurationError(
        f"the addresses of its {of} cannot be read",
        option="store",
        fix=f"write redis+{shape}://HOST:PORT,HOST:PORT{path}, and percent-encode what is special"
        " in user and password",
    )


def _path(scheme: str, shape: Shape, path: str) -> tuple[str, str]:
    if shape is Shape.CLUSTER:
        if path not in ("", "0"):
            raise _no_database(scheme)
        return "", ""
    service, slash, db = path.partition("/")
    if not service or "%" in service or (slash and not db.isdecimal()):
        raise ConfigurationError(
            "what its sentinels call the service is missing, or the database is not a number",
            option="store",
            fix=f"write {scheme}://HOST:PORT,HOST:PORT/SERVICE or …/SERVICE/DB, with the name from"
            " the sentinels' own line 'sentinel monitor SERVICE …'",
        )
    return service, db


def _no_database(scheme: str) -> ConfigurationError:
    return ConfigurationError(
        "a cluster is used with database 0 only",
        option="store",
        fix=f"write {scheme}://HOST:PORT,HOST:PORT without a database",
    )
