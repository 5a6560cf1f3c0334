"""Claims on NATS JetStream, 2.9 or later: the first message of a slot's subject has the slot.

Claims are messages in a stream of ours, published with the condition that their subject has none
yet (``Nats-Expected-Last-Subject-Sequence: 0``), which the server decides for one at a time. It
remembers them by their age. Whoever loses reads the message to learn whose it is, so a claim whose
answer was lost is asked again by its token, and no ``Nats-Msg-Id`` is set: it would say the same,
for a shorter time. The history is a second stream.

**Whose clock.** Whether a slot is due or late is judged by the clock that the server tells in the
call, a round trip before the claim; before NATS 2.10 it tells none, and this host's counts.

Whoever opens the streams of a namespace first makes them. The least rights that do, with the
namespace ``default``::

    publish = [
      "anarchon.default.claim.*.*"
      "anarchon.default.run.*"
      "$JS.API.DIRECT.GET.anarchon-claims-default.>"
      "$JS.API.STREAM.INFO.anarchon-claims-default"
      "$JS.API.STREAM.INFO.anarchon-history-default"
      "$JS.API.STREAM.CREATE.anarchon-claims-default"
      "$JS.API.STREAM.CREATE.anarchon-history-default"
      "$JS.API.STREAM.UPDATE.anarchon-claims-default"
      "$JS.API.STREAM.UPDATE.anarchon-history-default"
      "$JS.API.CONSUMER.CREATE.anarchon-history-default"
      "$JS.API.CONSUMER.DELETE.anarchon-history-default.*"
    ]
    subscribe = ["_INBOX.anarchon.>"]

``STREAM.CREATE`` and ``STREAM.UPDATE`` are not needed where both streams are there and are wide
enough, and ``CONSUMER`` for nothing but reading the history.
"""

from __future__ import annotations

import logging
from datetime import timedelta

from anarchon.backends.nats.examining import examine
from anarchon.backends.nats.settings import Settings, read_url
from anarchon.backends.nats.store import NatsStore
from anarchon.standing import Standing

__all__ = ["NatsBackend", "NatsStore"]

_log = logging.getLogger("anarchon.backends.nats")


class NatsBackend:
    """NATS servers with JetStream, which say who has a slot and keep no leases.

    Takes ``nats://`` and ``tls://`` URLs of one or several servers, ``nats://a:4222,b:4222``, with
    ``remember``, ``replicas``, ``creds``, ``nkey`` and the options for TLS in the query.
    """

    judges_time = False

    def __init__(self, url: str) -> None:
        self._settings: Settings = read_url(url)
        self._warned: set[str] = set()

    @classmethod
    def from_url(cls, url: str) -> NatsBackend:
        return cls(url)

    def __repr__(self) -> str:
        return f"<NatsBackend: {self.label}>"

    @property
    def label(self) -> str:
        return self._settings.label

    def connect(self, namespace: str) -> NatsStore:
        return NatsStore(self._settings, namespace, self._warn_once)

    def remembers(self, within: timedelta) -> timedelta:
        """Return the age at which a claim is forgotten."""
        return self._settings.remembers(within)

    async def examine(self, namespace: str) -> Standing:
        return await examine(self._settings, namespace)

    def _warn_once(self, problem: str) -> None:
        if problem not in self._warned:
            self._warned.add(problem)
            _log.warning("store=%s %s", self.label, problem)
