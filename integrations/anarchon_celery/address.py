"""Where the messages go, told without user and password; imports what is needed to send them."""

from __future__ import annotations

from importlib.metadata import metadata
from typing import Any
from urllib.parse import parse_qs

from celery import Celery

from anarchon import ConfigurationError
from anarchon.backends.urls import is_torn, unreadable

#: Options of kombu's transports by which projects share one server and no message.
_DIVIDES = ("global_keyprefix", "master_name", "queue_name_prefix", "region")
_EXTRAS = {"rediss": "redis", "sentinel": "redis", "sqla": "sqlalchemy"}


def address_of(app: Celery) -> str:
    """Return transport, host, port and virtual host of the write connection; connects nowhere.

    Several hosts come sorted: whichever is tried first, they are one broker.
    Raises ``ConfigurationError`` for a transport that cannot be used here.
    """
    urls: Any = app.conf.broker_write_url
    listed = urls.split(";") if isinstance(urls, str) else list(urls or (None,))
    return ";".join(sorted({_address(app, url) for url in listed}))


def _address(app: Celery, url: str | None) -> str:
    # without a scheme, the first word may be a user and the next a password
    scheme = url.partition("://")[0].partition("+")[0] if url and "://" in url else "amqp"
    try:
        connection: Any = app.connection_for_write(url)
        # some find out only here that the library they need is missing
        transport = connection.transport
        if is_torn(url or "") and not transport.can_parse_url:
            raise unreadable("broker_url")
        told = _of_url(connection) if transport.can_parse_url else _of_parts(connection)
        connection.release()
    except ImportError as error:
        raise ConfigurationError(
            f"the transport of {scheme}:// cannot be imported: {error}",
            option="broker_url",
            fix=_to_install(scheme),
        ) from error
    except KeyError as error:
        raise ConfigurationError(
            str(error.args[0]),
            option="broker_url",
            fix='write a URL of a transport of kombu\'s, such as "amqp://HOST" or "redis://HOST"',
        ) from error
    except ConfigurationError:
        raise
    except TypeError as error:
        if is_torn(url or ""):
            raise unreadable("broker_url") from None
        # kombu takes each name in the query of a broker's URL for an argument of its own
        raise ConfigurationError(
            f"kombu cannot use the URL: {error}",
            option="broker_url",
            fix="write what stands after its ? into broker_transport_options",
        ) from error
    except ValueError:
        raise unreadable("broker_url") from None
    options = app.conf.broker_transport_options or {}
    divided = "".join(f" {name}={options[name]}" for name in _DIVIDES if options.get(name))
    return f"{transport.driver_type}://{told}{divided}"


def _of_parts(connection: Any) -> str:
    if "://" in (connection.hostname or ""):
        # as in redis+socket://
        return _of_url(connection)
    defaults = connection.transport.default_connection_params
    host = connection.hostname or defaults.get("hostname") or ""
    port = connection.port or defaults.get("port")
    at = f"{host}:{port}" if port else host
    return f"{at}/{_virtual_host(connection, connection.virtual_host)}"


def _of_url(connection: Any) -> str:
    scheme, _, rest = (connection.hostname or "").partition("://")
    # not by a parser of URLs: some databases allow a "/" or a "?" in a password
    place, _, query = rest.rpartition("@")[2].partition("?")
    hosts, slash, path = place.partition("/")
    told = f"{','.join(sorted(hosts.split(',')))}{slash}{path}"
    if scheme != "socket":
        return told
    return f"{told}/{_virtual_host(connection, parse_qs(query).get('virtual_host', [''])[0])}"


def _virtual_host(connection: Any, named: str | None) -> str:
    if connection.transport.driver_type == "redis":
        return (named or "").strip("/") or "0"
    return named or "/"


def _to_install(scheme: str) -> str:
    extra = _EXTRAS.get(scheme.lower(), scheme.lower())
    if extra in (metadata("celery").get_all("Provides-Extra") or ()):
        return f"type: pip install 'celery[{extra}]'"
    return "install the package that it needs"
