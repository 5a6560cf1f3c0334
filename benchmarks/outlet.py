"""The queue of a Redis broker, as whoever stands beside it sees it: how many came, and when."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

import redis

_QUEUE = "celery"
#: Fine enough for tenths of a second, and next to nothing for the server.
_LOOK_EACH = 0.005
_PIECE = 5_000


@dataclass(frozen=True)
class Message:
    """One message: of which entry, for which slot and attempt, when it was sent and by whom.

    A peer's message names no slot.
    """

    number: int
    slot: float | None
    attempt: int
    sent: float
    sender: int


@dataclass(frozen=True)
class Arrivals:
    """How many messages came, and when the newest of them, by the broker's clock."""

    count: int
    newest: float


class Outlet:
    """The queue that no worker takes from."""

    def __init__(self, url: str) -> None:
        self._client: redis.Redis = redis.Redis.from_url(url)

    def clear(self) -> None:
        """Empty the whole server: the queue, the store, and what peers keep."""
        self._client.flushall()

    def watch(
        self,
        wanted: int,
        until: float,
        *,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> Arrivals:
        """Look until so many messages came, or until a moment of this machine's clock."""
        seen = Arrivals(0, 0.0)
        while seen.count < wanted and time.time() < until:
            count, moment = self._look()
            if count != seen.count:
                seen = Arrivals(count, moment)
            meanwhile()
            time.sleep(_LOOK_EACH)
        return seen

    def newest(self) -> Message | None:
        """Return the message that came last."""
        raw = self._client.lindex(_QUEUE, 0)
        return None if raw is None else _message(raw)

    def messages(self) -> Iterator[Message]:
        """Read all that came; nothing is taken."""
        start = 0
        while found := self._client.lrange(_QUEUE, start, start + _PIECE - 1):
            assert isinstance(found, list)
            for raw in found:
                yield _message(raw)
            start += _PIECE

    def _look(self) -> tuple[int, float]:
        pipe = self._client.pipeline(transaction=False)
        pipe.llen(_QUEUE)
        pipe.time()
        count, (seconds, micros) = pipe.execute()
        return count, seconds + micros / 1e6


def _message(raw: bytes | str) -> Message:
    envelope = json.loads(raw)
    headers = envelope["headers"]
    (number,), _, _ = json.loads(base64.b64decode(envelope["body"]))
    run = headers.get("anarchon") or {}
    slot = datetime.fromisoformat(run["slot"]).timestamp() if "slot" in run else None
    return Message(number, slot, run.get("attempt", 1), headers["sent"], headers["sender"])
