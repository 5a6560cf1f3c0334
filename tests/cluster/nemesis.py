"""Does one thing after the other to a cluster, as a seed says, and remembers what it did."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Mapping
from datetime import timedelta
from random import Random

from tests.cluster.catalogue import Draw
from tests.cluster.cluster import Cluster
from tests.cluster.faults import Fault
from tests.cluster.true_time import now

_LOOK = 0.05
#: Seconds from the time that a fault is to be over to the time that it must be.
HEALED_WITHIN = 120.0
_LAST_WORDS = 5000


class Nemesis:
    """Injects a fault every so many seconds, of every kind in turn, in an order of chance.

    Faults may be at work at the same time, as long as they touch different things.
    """

    def __init__(
        self, cluster: Cluster, draws: Mapping[str, Draw], *, seed: int, every: float
    ) -> None:
        self.faults: list[Fault] = []
        self._cluster = cluster
        self._draws = draws
        self._chance = Random(seed)
        self._every = every
        # each kind once, before chance decides what comes how often
        self._deck = self._chance.sample(sorted(draws), len(draws))
        self._healing: list[tuple[float, int, Fault]] = []
        self._order = itertools.count()

    def inject(self, fault: Fault) -> None:
        """Begin one fault now; it is healed in its time."""
        fault.inject()
        self.faults.append(fault)
        self._heal_later(fault, fault.lasts)

    def run(self, seconds: float) -> None:
        """Go on for some time, and heal everything at its end."""
        end = time.monotonic() + seconds
        due = time.monotonic()
        while time.monotonic() < end:
            if time.monotonic() >= due:
                due += self._every
                self._inject_next()
            self._pass_a_moment()
        self.rest(0)

    def rest(self, seconds: float) -> None:
        """Let some time pass and do nothing, but heal what is still at work."""
        end = time.monotonic() + seconds
        while self._healing or time.monotonic() < end:
            self._pass_a_moment()

    def _pass_a_moment(self) -> None:
        while self._healing and self._healing[0][0] <= time.monotonic():
            fault = heapq.heappop(self._healing)[2]
            if not fault.heal():
                late = now() - fault.began - timedelta(seconds=fault.lasts)
                assert late.total_seconds() < HEALED_WITHIN, (
                    f"not over within {HEALED_WITHIN:.0f} s: {fault}\n{fault.log()[-_LAST_WORDS:]}"
                )
                self._heal_later(fault, _LOOK)
        self._cluster.watch(_LOOK)

    def _heal_later(self, fault: Fault, seconds: float) -> None:
        heapq.heappush(self._healing, (time.monotonic() + seconds, next(self._order), fault))

    def _inject_next(self) -> None:
        """Begin the first fault of the deck that nothing stands in the way of."""
        kinds = sorted(self._draws)
        weights = [self._draws[kind].weight for kind in kinds]
        if not self._inject_one_of_the_deck() and len(self._deck) < sum(weights):
            # what is left waits for its moment
            self._deck += self._chance.sample(kinds, sum(weights), counts=weights)
            self._inject_one_of_the_deck()

    def _inject_one_of_the_deck(self) -> bool:
        taken = {thing for _, _, fault in self._healing for thing in fault.takes}
        refused: set[str] = set()
        for kind in list(self._deck):
            if kind in refused:
                continue
            fault = self._draws[kind].draw(self._chance)
            if fault is not None and not fault.takes & taken:
                self._deck.remove(kind)
                self.inject(fault)
                return True
            refused.add(kind)
        return False
