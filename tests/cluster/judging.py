"""From what was done to a cluster and what its work wrote down: evidence, and measured times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from anarchon.job import Job
from anarchon.testing.evidence import Body, Evidence, Life, Trouble
from tests.cluster.cluster import Cluster
from tests.cluster.faults import Fault
from tests.cluster.noted import Note, bodies_of, first_words, stalls_of
from tests.cluster.places import Place

#: What this machine, busy with other tests too, may take longer than a bound.
PATIENCE = timedelta(seconds=2)
#: An instance must be heard of again so soon after its way to the store is good again.
RECOVERY_BOUND = timedelta(seconds=10)


@dataclass(frozen=True)
class Takeover:
    """What a killed instance left behind, and after how long its job went on, if it did.

    ``bound`` is lease, two heartbeats and jitter. ``is_clean`` says that somebody who had seen
    the slot was well all the while, so that the bound holds.
    """

    job: str
    slot: datetime
    delay: timedelta | None
    bound: timedelta
    is_clean: bool

    @property
    def is_late(self) -> bool:
        return self.is_clean and (self.delay is None or self.delay > self.bound + PATIENCE)


@dataclass(frozen=True)
class Recovery:
    """After how long an instance was heard of again; ``None`` if it should have been."""

    kind: str
    place: str
    healed: datetime
    delay: timedelta | None


class Aftermath:
    """Everything about one run of a cluster; ``until`` is when its work still went on."""

    def __init__(
        self,
        cluster: Cluster,
        faults: Sequence[Fault],
        notes: Sequence[Note],
        until: datetime,
        stalls: Sequence[Trouble] = (),
    ) -> None:
        self._cluster = cluster
        self._faults = faults
        self._until = until
        self.folder = cluster.folder
        self._first_words = first_words(notes)
        self._all_bodies = bodies_of(notes)
        #: When the machine did not let an instance run, or the store.
        self.stalls = [*stalls_of(notes), *stalls]

    @cached_property
    def lives(self) -> Sequence[Life]:
        return [life for place in self._cluster.places for life in place.lives(self._first_words)]

    @cached_property
    def bodies(self) -> Sequence[Body]:
        return [body for body in self._all_bodies if body.started <= self._until]

    @cached_property
    def troubles(self) -> Sequence[Trouble]:
        injected = [t for fault in self._faults for t in fault.troubles(self._heard_of)]
        return [*injected, *self.stalls]

    @property
    def evidence(self) -> Evidence:
        return Evidence(
            self.lives,
            self.bodies,
            self.troubles,
            self._until,
            keeps_leases=self._cluster.store.keeps_leases,
        )

    # ------------------------------------------------ recovery

    def recoveries(self) -> list[Recovery]:
        """Return how each instance came back that lived through a fault that cut it off."""
        told = []
        for fault in self._faults:
            for place in fault.cuts_off:
                until = min(self._next_harm(place, fault), self._until)
                if not place.lived_through(fault.began, until):
                    continue
                heard = self._first_sign(place, fault.healed)
                if heard is not None and heard <= until:
                    delay = heard - fault.healed
                    told.append(Recovery(fault.kind, str(place), fault.healed, delay))
                elif until == fault.healed + RECOVERY_BOUND and not place.showed_ready_at(until):
                    told.append(Recovery(fault.kind, str(place), fault.healed, None))
        return told

    def _heard_of(self, place: Place, healed: datetime) -> datetime:
        """Return when a place was back, at most when it had to be."""
        sign = self._first_sign(place, healed)
        bound = healed + RECOVERY_BOUND
        return min(sign, bound) if sign is not None else bound

    def _first_sign(self, place: Place, after: datetime) -> datetime | None:
        names = {start.name for start in place.starts}
        signs = [b.started for b in self._all_bodies if b.instance in names and b.started >= after]
        signs += [moment for moment, is_ready in place.shown if is_ready and moment >= after]
        return min(signs, default=None)

    def _next_harm(self, place: Place, over: Fault) -> datetime:
        """Return when something else befell a place after a fault, or the bound was over."""
        others = [
            fault.began
            for fault in self._faults
            if fault is not over
            and fault.healed >= over.healed
            and (place in fault.cuts_off or f"process of {place}" in fault.takes)
        ]
        return min([over.healed + RECOVERY_BOUND, *others])

    # ------------------------------------------------ takeovers

    def takeovers(self) -> list[Takeover]:
        """Return what became of each body that a kill cut short."""
        killed = {life.instance: life for life in self.lives if life.killed}
        return [
            self._takeover(killed[body.instance], body)
            for body in self.bodies
            if body.instance in killed and body.ended is None
        ]

    def _takeover(self, life: Life, body: Body) -> Takeover:
        assert life.end is not None
        job = next(job for job in life.jobs if job.name == body.job)
        bound = job.lease + 2 * job.heartbeat + job.jitter
        went_on = [other.started for other in self.bodies if _goes_on(job, body, other)]
        is_last = body.attempt >= job.max_attempts
        return Takeover(
            job=body.job,
            slot=body.slot,
            delay=min(went_on) - life.end if went_on else None,
            bound=bound,
            is_clean=not is_last and self._somebody_is_well(job, body, life.end + bound + PATIENCE),
        )

    def _somebody_is_well(self, job: Job, body: Body, until: datetime) -> bool:
        """Tell whether one who saw the slot, and the store, had no trouble until then."""
        since = body.slot - timedelta(seconds=1)
        if until > self._until:
            return False
        sick = {t.instance for t in self.troubles if t.start <= until and t.end >= since}
        return None not in sick and any(
            job.name in {other.name for other in life.jobs}
            and life.instance not in sick
            and life.start <= since
            and (life.end is None or life.end >= until)
            for life in self.lives
        )


def _goes_on(job: Job, left: Body, other: Body) -> bool:
    """Tell whether the other body takes up what was left: its run, or under skip a newer one."""
    if other.job != left.job or other.started <= left.started:
        return False
    if other.slot == left.slot:
        return other.attempt > left.attempt
    return job.overlap == "skip" and other.slot > left.slot
