"""URLs of servers that cannot be read for certain, and passwords kept out of every message.

What is special in a password and not percent-encoded makes pieces of it pass for host, path or
query, and parsers of URLs quote such pieces in their errors.
"""

from __future__ import annotations

import re

from anarchon.errors import ConfigurationError

_NETLOC = re.compile(r"[^:/?#]*://[^/?#]*")
#: Only in the values of these may an @ stand as it is.
_LOGIN = re.compile(r"(?<=[?&])(?:password|ssl_password|sslpassword|user|username)=[^&#]*")
_PASSWORD = re.compile(r"(?<=://)([^/\s:@]*):[^/\s@]+@(?!\S*@)")
#: With something special in it, or where slashes are missing: all before the host goes.
_ODD_PASSWORD = re.compile(r"(\b[A-Za-z][A-Za-z0-9+.-]*:/{0,2})(?!\S*:\*\*@)\S*@")


def is_torn(url: str) -> bool:
    """Tell whether a piece of the password may stand behind the host's place."""
    netloc = _NETLOC.match(url)
    behind = url[netloc.end() :] if netloc else url
    return "#" in behind or "@" in _LOGIN.sub("", behind)


def unreadable(option: str) -> ConfigurationError:
    """Return the error to raise; to be raised from nothing, for what it replaces may quote."""
    return ConfigurationError(
        "the URL cannot be read",
        option=option,
        fix="write it as SCHEME://USER:PASSWORD@HOST:PORT/NAME, and percent-encode what is special"
        " in user, password and name: / as %2F, @ as %40, ? as %3F, # as %23, : as %3A,"
        " [ as %5B, ] as %5D",
    )


def without_passwords(text: str) -> str:
    """Return a text with the passwords of the URLs in it hidden."""
    return _ODD_PASSWORD.sub(r"\1**@", _PASSWORD.sub(r"\1:**@", text))
