"""The schedule run by worker processes: by one of those on a machine, and then by the next.

Every worker process waits for the machine's lock, twice a second, on a thread of its own.
Whoever has it runs the scheduler until it is told to stop. A process that is killed loses the
lock with its life, and one of the others goes on. One that stands still does not: there is a
spare lock for whoever steps in, and then both may run it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from anarchon import Scheduler
from anarchon.scheduler.supervised import SupervisedScheduler
from anarchon.threads import Flag, OSThread
from anarchon_dramatiq.host_lock import HostLock

log = logging.getLogger("anarchon.dramatiq")

_LOOK = 0.5
_TOUCH = 1.0
#: As many processes may stand still, but for one.
_LOCKS = 4
#: What the end of a scheduler may take beside its grace.
_SPARE = 3.0


class Engine:
    """The scheduler of one worker process, if it comes to that; every method returns soon."""

    def __init__(self, make: Callable[[], Scheduler]) -> None:
        self._make = make
        self._told = Flag()
        self._running: SupervisedScheduler | None = None
        self._thread = OSThread(self._live, "anarchon-engine")

    def start(self) -> None:
        """Wait for the lock from now on."""
        self._thread.start()

    def tell(self) -> None:
        """Claim nothing more, and hand over."""
        self._told.set()
        if self._running is not None:
            self._running.tell()

    def join(self) -> None:
        """Wait until it has handed over."""
        self._thread.join(_SPARE)

    def _live(self) -> None:
        made = self._make()
        if not made.jobs:
            return
        lock = self._taken([HostLock(_known_by(made), number) for number in range(_LOCKS)])
        if lock is None:
            return
        try:
            self._run(made, lock)
        finally:
            lock.release()

    def _taken(self, locks: Sequence[HostLock]) -> HostLock | None:
        """Wait for one of the locks; the later are there for when a holder stands still."""
        while True:
            for number, lock in enumerate(locks):
                if lock.take():
                    if number:
                        log.warning("who runs the schedule here shows no life: stepping in")
                    return lock
                if not lock.is_silent():
                    break
            if self._told.wait(_LOOK):
                return None

    def _run(self, made: Scheduler, lock: HostLock) -> None:
        log.info(
            "this process runs the schedule: jobs=%d store=%s namespace=%s",
            len(made.jobs),
            made.store,
            made.namespace,
        )
        self._running = SupervisedScheduler(self._make)
        self._running.start()
        while not self._told.wait(_TOUCH):
            lock.touch()
        self._running.stop()


def _known_by(scheduler: Scheduler) -> str:
    """Return what schedulers of the same jobs share: others must not keep each other from it."""
    jobs = sorted((job.name, job.schedule.canonical(), _sent(job.action)) for job in scheduler.jobs)
    return repr((scheduler.store, scheduler.namespace, jobs))


def _sent(action: object) -> tuple[object, ...]:
    return getattr(action, "task", None), getattr(action, "sends_to", None)
