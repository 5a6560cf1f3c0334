"""What can be done to a broker, and to the ways to it.

The queue outlives all of it: the broker has on disk whatever it acknowledged. What a client was
being given at that moment may be gone, as with any broker of this kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random

from anarchon.testing.evidence import Fault as Cause
from anarchon.testing.evidence import Trouble
from tests.cluster.catalogue import Draw, for_all
from tests.cluster.faults import Fault
from tests.cluster.places import Place
from tests.cluster.stores import Harm
from tests.cluster.ways import ProxyWay
from tests.servers import Server


class BrokerFault(Fault):
    """A fault between some places and their broker; whoever keeps a lease is not touched by it."""

    def __init__(self, kind: str, takes: Sequence[str], lasts: float, places: Sequence[Place]):
        super().__init__(kind, takes, lasts)
        self.places = places

    def broker_troubles(self) -> list[Trouble]:
        """Return who could send and receive nothing, and when."""
        return [
            Trouble(Cause.CUT, self.began, self.healed, instance)
            for place in self.places
            for instance in place.instances_between(self.began, self.healed)
        ]


class BrokerHarmed(BrokerFault):
    """The broker itself is away, for everybody."""

    def __init__(self, harm: Harm, places: Sequence[Place], lasts: float) -> None:
        super().__init__(harm.kind, ["broker"], lasts, places)
        self._harm = harm

    def begin(self) -> None:
        self._harm.inject()

    def end(self) -> bool:
        self._harm.heal()
        return True


class BrokerWayLost(BrokerFault):
    """Something on the way to the broker, of one place or of every one."""

    def __init__(
        self,
        kind: str,
        ways: Mapping[Place, ProxyWay],
        lasts: float,
        begin: Callable[[ProxyWay], object],
    ) -> None:
        takes = [f"broker way of {place}" for place in ways]
        super().__init__(kind, takes, lasts, list(ways))
        self._ways = list(ways.values())
        self._begin = begin

    def begin(self) -> None:
        for way in self._ways:
            self._begin(way)

    def end(self) -> bool:
        for way in self._ways:
            way.heal()
        return True


def broker_catalogue(
    broker: Server,
    ways: Mapping[Place, ProxyWay],
    length: Callable[[Random], float],
) -> dict[str, Draw]:
    """Return what can befall the broker and the ways to it, by what tables call it."""
    harms = (
        Harm("broker paused", broker.pause, broker.resume),
        Harm("broker restarted", broker.stop, broker.start),
        Harm("broker killed", broker.kill, broker.start),
    )
    draws = {harm.kind: _on_broker(harm, list(ways), length) for harm in harms}
    for mode in next(iter(ways.values())).modes():
        kind = f"broker: {mode}"
        draws[kind] = _on_ways(kind, mode, ways, length, everywhere=False)
        draws[for_all(kind)] = _on_ways(for_all(kind), mode, ways, length, everywhere=True)
    return draws


def _on_broker(harm: Harm, places: Sequence[Place], length: Callable[[Random], float]) -> Draw:
    return Draw(1, lambda chance: BrokerHarmed(harm, places, length(chance)))


def _on_ways(
    kind: str,
    mode: str,
    ways: Mapping[Place, ProxyWay],
    length: Callable[[Random], float],
    *,
    everywhere: bool,
) -> Draw:
    def draw(chance: Random) -> Fault:
        chosen = ways
        if not everywhere:
            place = chance.choice(list(ways))
            chosen = {place: ways[place]}
        seed = chance.random()
        return BrokerWayLost(
            kind, chosen, length(chance), lambda way: way.modes()[mode](Random(seed))
        )

    return Draw(1 if everywhere else 2, draw)
