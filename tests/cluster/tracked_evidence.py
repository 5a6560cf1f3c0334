"""What was done to a cluster with tracked runs, and what its schedulers and workers wrote down.

Two bodies of evidence: of the schedulers, whose work it is to send, and who can be cut off from
the broker; and of the workers, who keep what they have begun as long as they reach the store. A
worker that runs the schedule is in both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from anarchon.job import Job
from anarchon.run import Attempt, RunState
from anarchon.testing.evidence import Body, Evidence, Life, Trouble
from anarchon.testing.spans import NEVER
from tests.cluster.brokers import BrokerFault
from tests.cluster.faults import Fault
from tests.cluster.judging import RECOVERY_BOUND
from tests.cluster.noted import Note, first_words, stalls_of
from tests.cluster.places import Place
from tests.cluster.true_time import moment
from tests.cluster.workers import WorkerPlace
from tests.tracked_starts import TrackedStart


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that a scheduler has sent."""

    job: str
    slot: datetime
    attempt: int
    fence: int
    message: str
    instance: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Received:
    """A delivery of a message to a worker, which may be one of many."""

    message: str
    worker: str
    at: datetime


@dataclass(frozen=True, slots=True)
class WorkerStart(TrackedStart):
    """A start that a worker wrote down, and in which of its processes."""

    pid: int
    message: str
    ended: datetime | None


def starts_of(
    notes: Iterable[Note], over: Mapping[str, datetime] | None = None
) -> list[WorkerStart]:
    """Return each start of a task; one without an end was over with its process at the latest.

    ``over`` tells of workers when they died, and of their processes by ``worker/pid``.
    """
    began: dict[tuple[object, ...], Note] = {}
    ended: dict[tuple[object, ...], Note] = {}
    for note in notes:
        if note["what"] in ("began", "ended"):
            key = (note["by"], note["pid"], note["message"], note["retry"])
            # a message that began twice in one process has two notes of that
            if note["what"] == "began":
                began[*key, sum(known[:4] == key for known in began)] = note
            else:
                ended[*key, sum(known[:4] == key for known in ended)] = note
    found = [_start(note, ended.get(key), over or {}) for key, note in began.items()]
    return sorted(found, key=lambda start: start.started)


def _start(note: Note, ended: Note | None, over: Mapping[str, datetime]) -> WorkerStart:
    end = None if ended is None else moment(ended["at"])
    died = min(over.get(note["by"], NEVER), over.get(f"{note['by']}/{note['pid']}", NEVER))
    return WorkerStart(
        job=note["job"],
        slot=datetime.fromisoformat(note["slot"]),
        attempt=note["attempt"],
        fence=note["fence"],
        retry=note["retry"],
        worker=note["by"],
        started=moment(note["at"]),
        busy_until=end or died,
        outcome=None if ended is None else ended["outcome"],
        pid=note["pid"],
        message=note["message"],
        ended=end,
    )


class TrackedAftermath:
    """Everything about one run of a cluster; ``until`` is when its work still went on."""

    def __init__(
        self,
        places: Sequence[Place],
        faults: Sequence[Fault],
        notes: Sequence[Note],
        history: Sequence[Mapping[str, Any]],
        until: datetime,
        stalls: Sequence[Trouble] = (),
    ) -> None:
        self.until = until
        self.jobs: dict[str, Job] = {job.name: job for job in places[0].kind.jobs}
        self.stalls = [*stalls_of(notes), *stalls]
        words = first_words(notes)
        works = [place for place in places if isinstance(place, WorkerPlace)]
        schedules = [p for p in places if not isinstance(p, WorkerPlace) or p.hosts]
        #: How often a worker ended by itself.
        self.crashes = sum(place.crashes for place in works)
        #: Processes that were killed beneath a living worker.
        self.lost_children = {
            f"{name}/{pid}": at
            for place in works
            for pid, at in place.lost_children.items()
            for name in place.instances_between(at, at)
        }
        self.workers_lives = [life for place in works for life in place.lives(words)]
        over = {
            life.instance: life.end
            for life in self.workers_lives
            if life.killed and life.end is not None
        }
        # also those after ``until``: the history may know of their ends
        self.starts = starts_of(notes, {**over, **self.lost_children})
        self.sends = [_sent(note) for note in notes if note["what"] == "sent"]
        self.received = [
            Received(note["message"], note["by"], moment(note["at"]))
            for note in notes
            if note["what"] == "received"
        ]
        self.history = [_attempt(told) for told in history]
        self.broker_troubles = [
            trouble
            for fault in faults
            if isinstance(fault, BrokerFault)
            for trouble in fault.broker_troubles()
        ]
        self._troubles = [t for fault in faults for t in fault.troubles(self._heard_of)]
        self.schedulers_lives = [life for place in schedules for life in place.lives(words)]

    def _heard_of(self, place: Place, healed: datetime) -> datetime:
        """Return when a place was back, at most when it had to be."""
        bound = healed + RECOVERY_BOUND
        names = {start.name for start in place.starts}
        # who starts was allowed to, but where it asks nobody
        signs = [
            start.started
            for start in self.starts
            if start.worker in names and start.started >= healed and self.asks(start.job)
        ]
        if not isinstance(place, WorkerPlace):
            signs += [at for at, is_ready in place.shown if is_ready and at >= healed]
        return min([bound, *signs])

    def asks(self, job: str) -> bool:
        """Tell whether a job starts by the store's word alone."""
        return self.jobs[job].on_store_error == "retry"

    @cached_property
    def workers(self) -> Evidence:
        """What concerns leases of runs that were begun."""
        return self._evidence(self.workers_lives, [], [])

    @cached_property
    def schedulers(self) -> Evidence:
        """What concerns claims and sending; each message is a body."""
        bodies = [
            Body(sent.job, sent.slot, sent.attempt, sent.fence, sent.instance, sent.at, sent.at)
            for sent in self.sends
            if sent.at <= self.until
        ]
        return self._evidence(self.schedulers_lives, bodies, self.broker_troubles)

    @cached_property
    def everybody(self) -> Evidence:
        """All that may have befallen anybody."""
        hosts = {life.instance for life in self.workers_lives}
        lives = [life for life in self.schedulers_lives if life.instance not in hosts]
        return self._evidence([*lives, *self.workers_lives], [], self.broker_troubles)

    def _evidence(
        self, lives: Sequence[Life], bodies: Sequence[Body], more: Sequence[Trouble]
    ) -> Evidence:
        troubles = [*self._troubles, *self.stalls, *more]
        return Evidence(lives, bodies, troubles, self.until)


def _sent(note: Note) -> Sent:
    return Sent(
        job=note["job"],
        slot=datetime.fromisoformat(note["slot"]),
        attempt=note["attempt"],
        fence=note["fence"],
        message=note["message"],
        instance=note["by"],
        at=moment(note["at"]),
    )


def _attempt(told: Mapping[str, Any]) -> Attempt:
    def at(key: str) -> datetime | None:
        return None if told[key] is None else datetime.fromisoformat(told[key])

    started = at("started")
    assert started is not None, "each attempt has started"
    return Attempt(
        job=told["job"],
        slot=datetime.fromisoformat(told["slot"]),
        attempt=told["attempt"],
        state=RunState(told["state"]),
        instance=told["instance"],
        fence=told["fence"],
        started=started,
        ended=at("ended"),
        detail=told["detail"],
        worker=told["worker"],
        message=told["message"],
        begun=at("begun"),
    )
