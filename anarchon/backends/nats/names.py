"""The names of everything kept on the server.

They never change within a layout: a renamed subject is a forgotten claim, whose slot runs again.
"""

from __future__ import annotations

from hashlib import sha256

#: Goes up with every change that an older version of this package could not read.
LAYOUT = 1

_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")
#: A stream's name has up to 255 characters, and is the name of a folder.
_LONGEST = 200
_KEPT = 120


def token_of(name: str) -> str:
    """Return any text as a part of a subject, or of a stream's name; another one for each."""
    written = "".join(
        chr(byte) if byte in _PLAIN else f"={byte:02X}" for byte in name.encode("utf-8")
    )
    if len(written) <= _LONGEST:
        return written
    # no byte is written as two of these
    return f"{written[:_KEPT]}=={sha256(written.encode()).hexdigest()[:40]}"


class Names:
    """The streams and subjects of one namespace."""

    def __init__(self, namespace: str) -> None:
        space = token_of(namespace)
        self.claims = f"anarchon-claims-{space}"
        self.history = f"anarchon-history-{space}"
        self._space = f"anarchon.{space}"
        self.all_claims = f"{self._space}.claim.*.*"
        self.all_runs = f"{self._space}.run.*"

    def claim(self, job: str, slot: int) -> str:
        """Return the subject of a slot, given in milliseconds."""
        return f"{self._space}.claim.{token_of(job)}.{slot}"

    def runs(self, job: str) -> str:
        """Return the subject of a job's history."""
        return f"{self._space}.run.{token_of(job)}"
