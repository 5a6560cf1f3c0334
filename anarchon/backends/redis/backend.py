"""What a backend and a store in Redis or Valkey are, with leases and without."""

from __future__ import annotations

import logging
from dataclasses import replace

from anarchon.backends.redis.keys import Keys
from anarchon.backends.redis.link import Link, link_to
from anarchon.backends.redis.settings import Settings
from anarchon.standing import Standing

_log = logging.getLogger("anarchon.backends.redis")


class Linking:
    """How to reach the servers; what is doubtful about them is told once for all its stores."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._warned: set[str] = set()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.label}>"

    @property
    def label(self) -> str:
        return self._settings.label

    def _link(self, keys: Keys) -> Link:
        return link_to(self._settings, keys, self._warn_once)

    async def examine(self, namespace: str) -> Standing:
        doubts: list[str] = []
        standing = await link_to(self._settings, Keys(namespace), doubts.append).examine()
        return replace(standing, doubts=tuple(doubts))

    def _warn_once(self, problem: str) -> None:
        if problem not in self._warned:
            self._warned.add(problem)
            _log.warning("store=%s %s", self.label, problem)


class Linked:
    """One namespace, and the link to it."""

    def __init__(self, link: Link, keys: Keys) -> None:
        self._link = link
        self._keys = keys

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.label}>"

    @property
    def label(self) -> str:
        return self._link.label

    async def open(self) -> None:
        await self._link.open()

    async def close(self) -> None:
        await self._link.close()
