"""What claims are called in RabbitMQ: the queue of a slot, and the mark of who has it.

A refusal is cut off after 255 bytes, and what it ends with is whose the queue is. So what stands
before that has to be short: a long name is cut, and ends in a hash of all of it.
"""

from __future__ import annotations

import hashlib
import re
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import quote, unquote

from anarchon.clock import to_millis

#: Every queue and every mark begins so: rights are given by it.
PREFIX = "anarchon."
#: Stands in no name that was made from a namespace or a job: both are percent-encoded.
_CUT = "*"
_HASH = 16
_SHORTEST = len(_CUT) + _HASH

#: A refusal is cut off behind so many bytes.
_LONGEST_TEXT = 252
#: The longest of the refusals that have to be understood, without the queue and the host.
_REFUSAL = (
    "PRECONDITION_FAILED - inequivalent arg 'x-dead-letter-exchange' for queue '' in vhost '':"
    f" received '{PREFIX}?' but current is '{PREFIX}{'t' * _HASH}."
)
_LONGEST_SLOT = 15
_LEAST_NAME = len(PREFIX) + _SHORTEST + 1 + _SHORTEST + 1 + _LONGEST_SLOT

#: The longest name of a virtual host that leaves room for the names of queues, in bytes.
LONGEST_VHOST = _LONGEST_TEXT - len(_REFUSAL) - _LEAST_NAME

_LONGEST_INSTANCE = 100
_MARK = re.compile(rf"{re.escape(PREFIX)}([\w-]{{{_HASH}}})(?:\.([^']*)('?))?", re.ASCII)


def remembered(within: timedelta) -> timedelta:
    """Return for how long a claim is remembered that may be made for so long after its slot."""
    return 2 * within + timedelta(minutes=1)


def queue_name(vhost: str, namespace: str, job: str, slot: datetime) -> str:
    """Return the name of the queue of a slot: another one for each."""
    millis = str(to_millis(slot))
    fixed = len(_REFUSAL) + len(vhost.encode()) + len(PREFIX) + len(f"..{millis}")
    room = _LONGEST_TEXT - fixed
    # a namespace has no dot any more, and a slot never had one, so a job may have them
    space = _fitted(
        quote(namespace, safe="", errors="surrogatepass").replace(".", "%2E"), room // 2
    )
    name = _fitted(quote(job, safe="", errors="surrogatepass"), room - len(space))
    return f"{PREFIX}{space}.{name}.{millis}"


def probe_name(namespace: str) -> str:
    """Return the name of a queue that is never made; it is under the rights that all have."""
    return f"{PREFIX}{_fitted(_quoted(namespace), 50)}.?"


@dataclass(frozen=True, slots=True)
class Mark:
    """Who has a slot: a hash of the token, and the instance where its name can be told."""

    token: str
    instance: str | None

    @classmethod
    def of(cls, token: str, instance: str) -> Mark:
        return cls(_hashed(token), instance)

    @classmethod
    def read(cls, text: str) -> Mark | None:
        """Read the text of a mark, which may be cut off; ``None`` where it is none."""
        found = _MARK.match(text)
        if found is None:
            return None
        token, instance, end = found.groups()
        is_whole = bool(instance) and bool(end) and _CUT not in instance
        return cls(token, unquote(instance, errors="surrogatepass") if is_whole else None)

    def __str__(self) -> str:
        instance = _fitted(_quoted(self.instance or ""), _LONGEST_INSTANCE)
        return f"{PREFIX}{self.token}.{instance}"


#: Equal to nobody's mark, and short.
NOBODY = f"{PREFIX}?"


def _quoted(text: str) -> str:
    return quote(text, safe="", errors="surrogatepass")


def _fitted(text: str, room: int) -> str:
    """Return a text that is at most so long, and another one for another text."""
    if len(text) <= room:
        return text
    return text[: max(0, room - _SHORTEST)] + _CUT + _hashed(text)


def _hashed(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return urlsafe_b64encode(digest)[:_HASH].decode()
