"""URLs of a project that cannot be read for certain, refused without a word of them.

What is special in a password and not percent-encoded makes pieces of it pass for host, path or
query, and parsers of URLs quote such pieces in their errors.
"""

from __future__ import annotations

import re

from anarchon import ConfigurationError

_NETLOC = re.compile(r"[^:/?#]*://[^/?#]*")
_LOGIN = re.compile(r"(?<=[?&])(?:password|ssl_password|username)=[^&#]*")


def is_torn(url: str) -> bool:
    """Tell whether a piece of the password may stand behind the host's place."""
    netloc = _NETLOC.match(url)
    behind = url[netloc.end() :] if netloc else url
    return "@" in _LOGIN.sub("", behind)


def unreadable(option: str) -> ConfigurationError:
    """Return the error to raise; to be raised from nothing, for what it replaces may quote."""
    return ConfigurationError(
        "the URL cannot be read",
        option=option,
        fix="write it as SCHEME://USER:PASSWORD@HOST:PORT/NAME, and percent-encode what is special"
        " in user, password and name: / as %2F, @ as %40, [ as %5B",
    )
