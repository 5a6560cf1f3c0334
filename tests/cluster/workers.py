"""A place where a worker lives: a process with children, that may run the schedule as well."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from random import Random

from tests.cluster.faults import Fault
from tests.cluster.places import Place, State
from tests.cluster.true_time import now
from tests.servers.process import family_of

#: kombu 5.7 gives back what it had not acknowledged through a connection that is closed already,
#: when the broker is lost in a bad moment; nothing of that is caught, and the worker ends.
_CRASH = "AttributeError: 'NoneType' object has no attribute 'hostname'"


@dataclass(eq=False)
class WorkerPlace(Place):
    """One place of a cluster whose instances are Celery workers with a pool of processes."""

    #: Which children were killed beneath a living worker, and when.
    lost_children: dict[int, datetime] = field(default_factory=dict)
    #: How often a worker ended by itself, as kombu lets it when it loses its broker.
    crashes: int = 0
    _orphans: list[int] = field(default_factory=list)
    _log_begins: int = 0

    @property
    def hosts(self) -> bool:
        """Tell whether its workers run the schedule."""
        return bool(self.environment.get("CLUSTER_EMBEDDED"))

    def __str__(self) -> str:
        return f"{'host' if self.hosts else self.kind.name}{self.number}"

    def start(self) -> None:
        log = self.folder / f"{self}.log"
        self._log_begins = log.stat().st_size if log.exists() else 0
        super().start()

    def look(self) -> None:
        """See how it is; one that crashed is started again, as whoever runs workers does."""
        if self.state in (State.STARTING, State.UP) and self._has_crashed():
            self.crashes += 1
            self._is_dead()
            self.start()
        super().look()

    def has_stopped(self) -> bool:
        if self._has_crashed():
            self.crashes += 1
            self._is_dead()
            return True
        return super().has_stopped()

    def _has_crashed(self) -> bool:
        if not self._child.poll():
            return False
        with (self.folder / f"{self}.log").open(errors="replace") as log:
            log.seek(self._log_begins)
            said = log.read()
        return "Unrecoverable error" in said and _CRASH in said

    def _more_options(self, name: str) -> Sequence[str | Path]:
        return ["-n", f"{name}@here"]

    def children(self) -> list[int]:
        return family_of(self._child.pid)[1:]

    def kill(self) -> None:
        """End its main process; a child that works goes on until it has nobody to tell."""
        self._remember_children()
        super().kill()

    def _remember_children(self) -> None:
        # by descriptors, for numbers are used again
        for pid in self.children():
            with suppress(ProcessLookupError):
                self._orphans.append(os.pidfd_open(pid))

    def freeze(self) -> None:
        super().freeze()
        for pid in self.children():
            _send(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        for pid in self.children():
            _send(pid, signal.SIGCONT)
        super().thaw()

    def end(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._remember_children()
        super().end()
        for orphan in self._orphans:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(orphan, signal.SIGKILL)
            os.close(orphan)
        self._orphans.clear()


class ChildKilled(Fault):
    """SIGKILL of a process of a worker's pool: what the kernel does to one that takes too much."""

    def __init__(self, kind: str, place: WorkerPlace, chance: Random) -> None:
        super().__init__(kind, [f"process of {place}"], 0.1)
        self._place = place
        self._chance = chance

    def begin(self) -> None:
        children = self._place.children()
        if children:
            pid = self._chance.choice(children)
            _send(pid, signal.SIGKILL)
            self._place.lost_children[pid] = now()

    def end(self) -> bool:
        return True


def up(places: Sequence[Place]) -> Iterator[WorkerPlace]:
    """Yield the workers that are up."""
    for place in places:
        if isinstance(place, WorkerPlace) and place.state is State.UP:
            yield place


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
