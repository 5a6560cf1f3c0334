"""An instance's way to the store, and everything that can happen on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Protocol

from tests.cluster.network import Address, Proxy

#: Something that can happen on a way until it is healed.
Mode = Callable[[Random], object]


class Way(Protocol):
    """Leads from one instance to the store."""

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...

    #: What enters the network this way begins in, before a command; nothing for our own.
    enter: tuple[str, ...]

    def modes(self) -> Mapping[str, Mode]:
        """Return what can happen on it, by name."""

    def heal(self) -> None:
        """Make it good again."""


class ProxyWay:
    """A way through a proxy of ours: works on every machine."""

    enter: tuple[str, ...] = ()

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self.host, self.port = proxy.host, proxy.port

    def modes(self) -> Mapping[str, Mode]:
        return modes_of(self._proxy)

    def heal(self) -> None:
        self._proxy.heal()


class Straight:
    """A way that nothing happens on."""

    enter: tuple[str, ...] = ()

    def __init__(self, address: Address | None) -> None:
        # a file needs no way
        self.host, self.port = address or ("", 0)

    def modes(self) -> Mapping[str, Mode]:
        return {}

    def heal(self) -> None:
        pass


def modes_of(proxy: Proxy) -> Mapping[str, Mode]:
    """Return what a proxy can do to its connections."""
    return {
        "connections cut": lambda chance: proxy.cut(),
        "black hole": lambda chance: proxy.black_hole(),
        # a question and its answer take twice as long: from unnoticed to over every deadline
        "slow": lambda chance: proxy.slow(chance.choice((0.05, 0.2, 0.7))),
    }
