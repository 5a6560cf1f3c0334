"""What a store's URL says, read and checked before anything is connected."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl, urlsplit

from anarchon.backends.urls import unreadable
from anarchon.errors import ConfigurationError

_FORM = "write libsql://HOST?authToken=TOKEN, or http+libsql://HOST:PORT"
#: The schemes, and whether they are encrypted; ``tls=`` may say otherwise for the first.
_SCHEMES = {"libsql": True, "https+libsql": True, "http+libsql": False}
_TOKEN = "authToken"
_TLS = {"0": False, "1": True}


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the database is: ``base`` is the address that the pipeline's paths are added to."""

    label: str
    base: str
    token: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, url: str) -> Settings:
        """Read a URL. Raises ``ConfigurationError``, in which no part of it is repeated."""
        try:
            parts = urlsplit(url.strip())
            port = parts.port
        except ValueError:
            raise unreadable("store") from None
        if parts.scheme not in _SCHEMES:
            raise _wrong("the URL is not one of libSQL", _FORM)
        _check_place(parts)
        options = _options(parts)
        encrypted = _SCHEMES[parts.scheme]
        if "tls" in options:
            encrypted = _tls(parts, options["tls"])
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        if not encrypted and port is None:
            raise _wrong("what is not encrypted has no port of its own", f"name it: {host}:8080")
        place = f"{host}:{port}" if port is not None else str(host)
        place += parts.path.rstrip("/")
        return cls(
            label=f"{'libsql' if encrypted else 'http+libsql'}://{place}",
            base=f"{'https' if encrypted else 'http'}://{place}",
            token=options.get(_TOKEN) or None,
        )


def _wrong(problem: str, fix: str) -> ConfigurationError:
    return ConfigurationError(problem, option="store", fix=fix)


def _check_place(parts: SplitResult) -> None:
    if parts.username is not None or parts.password is not None:
        raise _wrong("a libSQL server takes a token, and no user or password", _FORM)
    if not parts.hostname:
        raise _wrong("the URL names no host", _FORM)
    # what is special in a token and not percent-encoded
    if parts.fragment:
        raise _wrong("the URL has a # in it", "percent-encode it as %23")


def _options(parts: SplitResult) -> dict[str, str]:
    options: dict[str, str] = {}
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name not in (_TOKEN, "tls"):
            # not its value, and the name may be a piece of a token
            known = f"it has {_TOKEN} and tls"
            raise _wrong("the URL has an option that libSQL does not have", known)
        if name in options:
            raise _wrong(f"the URL has {name}= twice", "write it once")
        options[name] = value
    return options


def _tls(parts: SplitResult, value: str) -> bool:
    if value not in _TLS:
        raise _wrong("tls cannot be that", "write tls=0 or tls=1")
    if parts.scheme != "libsql" and _TLS[value] != _SCHEMES[parts.scheme]:
        raise _wrong(f"{parts.scheme}:// and tls={value} say two things", "leave tls= out")
    return _TLS[value]
