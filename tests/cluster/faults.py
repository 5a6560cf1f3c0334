"""What can be done to a cluster: each fault injects and heals itself, and says what it was."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta

from anarchon.testing.evidence import Fault as Cause
from anarchon.testing.evidence import Trouble
from tests.cluster.places import Place, State
from tests.cluster.stores import Harm, Store
from tests.cluster.true_time import now

#: When a place was heard of again after a moment, or when nobody waited for it any longer.
HeardOf = Callable[[Place, datetime], datetime]

#: Work and takeovers of it included.
LONGEST_RUN = timedelta(seconds=20)
_NEVER = datetime.max.replace(tzinfo=UTC)


class Fault(ABC):
    """One thing done to a cluster, from `inject` to `heal`; both times are true ones.

    ``takes`` is what no other fault may touch meanwhile. ``kind`` is what tables call it.
    """

    #: Instances must be heard of again within a stated time after it.
    cuts_off: Sequence[Place] = ()

    def __init__(self, kind: str, takes: Iterable[object], lasts: float) -> None:
        self.kind = kind
        self.takes = frozenset(takes)
        self.lasts = lasts
        self.began = self.healed = _NEVER

    def __str__(self) -> str:
        taken = ", ".join(sorted(map(str, self.takes)))
        return f"{self.began:%H:%M:%S.%f} - {self.healed:%H:%M:%S.%f} {self.kind}: {taken}"

    def inject(self) -> None:
        self.began = now()
        self.begin()

    def heal(self) -> bool:
        """Undo it; tell whether that is done, else ask again in a moment."""
        if not self.end():
            return False
        self.healed = now()
        return True

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def end(self) -> bool: ...

    def log(self) -> str:
        """Return what they logged whose doing it hangs on."""
        return ""

    def troubles(self, heard_of: HeardOf) -> list[Trouble]:
        """Return what it was; nothing where the lives of the instances say it all."""
        return []

    def _cut_off(self, heard_of: HeardOf) -> list[Trouble]:
        ends = [(place, heard_of(place, self.healed)) for place in self.cuts_off]
        return [
            Trouble(Cause.CUT, self.began, end, instance)
            for place, end in ends
            for instance in place.instances_between(self.began, end)
        ]


class _OfProcesses(Fault):
    def __init__(self, kind: str, places: Sequence[Place], lasts: float) -> None:
        super().__init__(kind, [f"process of {place}" for place in places], lasts)
        self.places = places


class Killed(_OfProcesses):
    """SIGKILL, and a new instance at each place some time later."""

    def begin(self) -> None:
        for place in self.places:
            place.kill()

    def end(self) -> bool:
        for place in self.places:
            place.start()
        return True


class Stopped(_OfProcesses):
    """SIGTERM, as in a deployment, and a new instance once all old ones have gone."""

    def begin(self) -> None:
        for place in self.places:
            place.tell_to_stop()

    def end(self) -> bool:
        if not all(place.state is State.DOWN or place.has_stopped() for place in self.places):
            return False
        for place in self.places:
            place.start()
        return True

    def log(self) -> str:
        return "\n".join(p.log() for p in self.places if p.state is not State.DOWN)


class StartedLate(_OfProcesses):
    """Nobody was at that place until now."""

    def begin(self) -> None:
        pass

    def end(self) -> bool:
        for place in self.places:
            place.start()
        return True


class Frozen(_OfProcesses):
    """SIGSTOP, and SIGCONT some time later.

    Who is frozen within a transaction of SQLite keeps the file from everybody: ``others``.
    """

    def __init__(
        self, kind: str, place: Place, lasts: float, store: Store, others: Sequence[Place]
    ) -> None:
        super().__init__(kind, [place], lasts)
        self.place = place
        self._store = store
        self._others = others

    def begin(self) -> None:
        self.place.freeze()
        if self._store.is_blocked():
            self.cuts_off = self._others

    def end(self) -> bool:
        self.place.thaw()
        return True

    def troubles(self, heard_of: HeardOf) -> list[Trouble]:
        instances = self.place.instances_between(self.began, self.healed)
        frozen = [Trouble(Cause.FROZEN, self.began, self.healed, name) for name in instances]
        away = [Trouble(Cause.AWAY, self.began, self.healed)] if self.cuts_off else []
        return [*frozen, *away, *self._cut_off(heard_of)]


class WayLost(Fault):
    """Something on the way to the store, of one instance or of every one."""

    def __init__(
        self, kind: str, places: Sequence[Place], lasts: float, begin: Callable[[Place], object]
    ) -> None:
        super().__init__(kind, [f"way of {place}" for place in places], lasts)
        self.cuts_off = places
        self._begin = begin

    def begin(self) -> None:
        for place in self.cuts_off:
            self._begin(place)

    def end(self) -> bool:
        for place in self.cuts_off:
            place.way.heal()
        return True

    def troubles(self, heard_of: HeardOf) -> list[Trouble]:
        return self._cut_off(heard_of)


class StoreHarmed(Fault):
    """What this store knows to suffer; everybody is cut off from it meanwhile."""

    def __init__(self, harm: Harm, places: Sequence[Place], lasts: float) -> None:
        super().__init__(harm.kind, ["store"], lasts)
        self.cuts_off = places
        self._harm = harm

    def begin(self) -> None:
        self._harm.inject()

    def end(self) -> bool:
        self._harm.heal()
        return True

    def troubles(self, heard_of: HeardOf) -> list[Trouble]:
        told = self._cut_off(heard_of)
        for cause in self._harm.causes:
            # All it ever knew is gone, but nothing hangs on a run that had ended: its slot lies
            # below the floor that a new record starts with.
            start = self.began - LONGEST_RUN if cause is Cause.FORGOT else self.began
            told.append(Trouble(cause, start, self.healed))
        return told


class ClockSet(Fault):
    """A wall clock is set to a wrong time, and to another one later.

    No `Trouble`: the store has a clock of its own, and nothing may depend on this one.
    """

    def __init__(self, kind: str, place: Place, lasts: float, error: int, later: int) -> None:
        super().__init__(kind, [f"wall clock of {place}"], lasts)
        self._place = place
        self._error, self._later = error, later

    def begin(self) -> None:
        self._set(self._error)

    def end(self) -> bool:
        self._set(self._later)
        return True

    def _set(self, error: int) -> None:
        assert self._place.wall_clock is not None
        self._place.wall_clock.set(error)
