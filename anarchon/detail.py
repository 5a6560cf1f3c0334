"""What the history tells of the end of an attempt: short, and such that every store keeps it."""

from __future__ import annotations

import json

from anarchon.events import shown

_LONGEST = 2000


def detail_of(value: object) -> str | None:
    """Return what a handler returned, as JSON if it can be; ``None`` for ``None``."""
    if value is None:
        return None
    try:
        return storable(json.dumps(value, ensure_ascii=False))
    except Exception:  # a value of the user's own may fail in any way
        return storable(shown(value))


def storable(text: str) -> str:
    """Return a text that every store can keep: not too long, UTF-8, without NUL."""
    short = text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
    return short.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode()
