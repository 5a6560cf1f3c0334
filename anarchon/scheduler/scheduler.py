"""What a user holds: declare jobs, start, stop, and ask what happened."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from types import TracebackType
from typing import Self, Unpack

from anarchon.action import Handler, Publisher
from anarchon.backends import open_backend
from anarchon.calling import PATIENCE, Calling
from anarchon.claim_store import AnyBackend, ClaimBackend
from anarchon.clock import Clock, SystemClock, rfc3339
from anarchon.durations import duration
from anarchon.errors import (
    ConfigurationError,
    DuplicateJob,
    NotRunning,
    StoreError,
    StoreUnavailable,
)
from anarchon.events import EventKind
from anarchon.job import (
    Duration,
    Job,
    JobOptions,
    check_defaults,
    define,
    whole_number,
)
from anarchon.run import Attempt
from anarchon.scheduler.background import BackgroundScheduler
from anarchon.scheduler.core import Callback
from anarchon.scheduler.declaring import Declaring
from anarchon.scheduler.life import Life
from anarchon.scheduler.signals import caught
from anarchon.schedules import Schedule
from anarchon.standing import Examinable, Standing

log = logging.getLogger("anarchon.scheduler")

_OPTIONS = ("store", "namespace", "name", "grace", "max_threads", "max_publishing", "clock")


class Scheduler(Declaring):
    """Runs jobs at their slots, together with every other scheduler on the same store.

    ``store`` is a URL or a backend. Two services on one store need two ``namespace``s.
    ``grace`` is how long a stop waits for handlers, ``max_threads`` how many plain functions
    run at once, ``max_publishing`` how many runs may wait for the broker at once; ``name`` is
    shown in the history before a random part that makes every start another instance. The
    job options given here are the defaults of its jobs.

    Start and stop it where its loop runs; jobs may be declared, and the history asked for,
    from any thread.
    """

    def __init__(
        self,
        store: str | AnyBackend = "sqlite:///anarchon.db",
        *,
        namespace: str = "default",
        name: str | None = None,
        grace: Duration = timedelta(seconds=20),
        max_threads: int = 32,
        max_publishing: int = 500,
        clock: Clock | None = None,
        **defaults: Unpack[JobOptions],
    ) -> None:
        self._backend = open_backend(store) if isinstance(store, str) else _checked_backend(store)
        claims_only = isinstance(self._backend, ClaimBackend)
        self._claims_only = self._backend.label if claims_only else None
        check_defaults(defaults, _OPTIONS, self._claims_only)
        self._namespace = _checked_namespace(namespace)
        self._name = name if name is not None else socket.gethostname()
        self._grace = duration(grace, option="grace", allow_zero=True)
        self._max_threads = whole_number("max_threads", max_threads)
        self._max_publishing = whole_number("max_publishing", max_publishing)
        self._clock = clock if clock is not None else SystemClock()
        self._defaults: Mapping[str, object] = defaults
        self._jobs: dict[str, Job] = {}
        self._callbacks: dict[EventKind, list[Callback]] = {}
        self._life: Life | None = None
        self._instance = ""

    def __repr__(self) -> str:
        life = self._life
        jobs = f"{len(self._jobs)} job{'' if len(self._jobs) == 1 else 's'}"
        if life is None:
            return f"<Scheduler {self._name}: {jobs}, not running>"
        held = ", ".join(
            f"{ctx.job}@{rfc3339(ctx.slot)} attempt {ctx.attempt}"
            for ctx in life.executor.under_way()
        )
        holding = f", holding {held}" if held else ""
        return f"<Scheduler {self._instance}: {jobs}{holding}>"

    @property
    def jobs(self) -> tuple[Job, ...]:
        """The jobs declared so far."""
        return tuple(self._jobs.values())

    @property
    def namespace(self) -> str:
        """The part of the store that this scheduler shares with its like."""
        return self._namespace

    @property
    def store(self) -> str:
        """The store as it may be shown: never with a password."""
        return self._backend.label

    @property
    def backend(self) -> AnyBackend:
        """How the store is reached: what was given, or what the URL stands for."""
        return self._backend

    @property
    def grace(self) -> timedelta:
        """How long a stop waits for handlers before it cancels them."""
        return self._grace

    @property
    def instance(self) -> str:
        """The id of this start, as the history shows it; raises ``NotRunning`` before."""
        if self._life is None:
            raise NotRunning("the scheduler has not been started")
        return self._instance

    @property
    def is_ready(self) -> bool:
        """Tell whether the jobs are loaded and the store answered last time it was asked."""
        life = self._life
        return life is not None and life.is_loaded and life.dealings.calling.is_answering

    def seconds_since_woken(self) -> float:
        """Return how long ago the loop looked at its timers; it never sleeps over a minute."""
        if self._life is None:
            raise NotRunning("the scheduler has not been started")
        return self._clock.monotonic() - self._life.last_woke

    def add(
        self,
        name: str,
        schedule: Schedule,
        action: Handler | Publisher,
        **options: Unpack[JobOptions],
    ) -> Job:
        job = define(name, schedule, action, options, self._defaults, claims_only=self._claims_only)
        if name in self._jobs:
            raise DuplicateJob(
                "a job of this name is declared already", job=name, fix="give it another name"
            )
        self._jobs[name] = job
        if self._life is not None:
            # whoever declares may be on another thread than the loop
            self._life.loop.call_soon_threadsafe(self._life.adopt, job)
        return job

    def on(self, event: str, callback: Callback) -> None:
        """Call back on every event of a kind; it may be a coroutine function.

        Called on the scheduler's loop; what it raises is logged and hurts no run.
        """
        try:
            kind = EventKind(event)
        except ValueError:
            raise ConfigurationError(
                f"there is no event {event!r}",
                option="event",
                fix=f"use one of {', '.join(EventKind)}",
            ) from None
        self._callbacks.setdefault(kind, []).append(callback)

    def next_slots(self, job: str, count: int = 1) -> list[datetime]:
        """Return a job's next slots, counted from now."""
        schedule = self._job(job).schedule
        life = self._life
        moment = life.core.now() if life is not None else self._clock.wall()
        slots: list[datetime] = []
        while len(slots) < count and (slot := schedule.next_after(moment)) is not None:
            slots.append(slot)
            moment = slot
        return slots

    async def history(
        self, job: str | Iterable[str] | None = None, *, limit: int = 20
    ) -> tuple[Attempt, ...]:
        """Return the newest attempts of a job, several, or all declared here; newest slot first.

        Works whether or not the scheduler runs, and for jobs it does not know. Raises
        ``StoreError`` if the store does not answer.
        """
        whole_number("limit", limit)
        names = tuple(self._jobs) if job is None else (job,) if isinstance(job, str) else tuple(job)
        life = self._life
        # a connection belongs to its loop, and a scheduler in the background has its own
        if life is not None and life.loop is asyncio.get_running_loop():
            return (await life.dealings.calling.history(names, limit)).answers
        calling = Calling(self._backend.connect(self._namespace), self._clock)
        try:
            return (await calling.history(names, limit)).answers
        finally:
            await calling.close()

    async def examine_store(self) -> Standing:
        """Say how the store stands; changes nothing in it, whether or not the scheduler runs.

        Raises ``StoreError`` if it cannot serve, or can be looked at only by being opened.
        """
        backend = self._backend
        if not isinstance(backend, Examinable):
            raise StoreError(backend.label, "cannot be looked at without being opened")
        try:
            async with self._clock.timeout(PATIENCE):
                return await backend.examine(self._namespace)
        except TimeoutError:
            problem = f"did not answer within {PATIENCE:.0f} s"
            raise StoreUnavailable(backend.label, problem) from None

    def _job(self, name: str) -> Job:
        if name not in self._jobs:
            raise ConfigurationError(
                "no such job is declared",
                job=name,
                fix=f"use one of {', '.join(self._jobs)}" if self._jobs else "declare it first",
            )
        return self._jobs[name]

    async def start(self) -> None:
        """Start firing slots; returns once what was missed or left unfinished is seen to.

        A store that is away is no error: it is waited for in the background. Raises
        ``StoreError`` where waiting will not help.
        """
        if self._life is not None:
            raise NotRunning("the scheduler was started already")
        self._instance = f"{self._name}-{secrets.token_hex(4)}"
        self._life = Life(
            self._backend,
            self._clock,
            self._jobs,
            namespace=self._namespace,
            instance=self._instance,
            callbacks=self._callbacks,
            max_threads=self._max_threads,
            max_publishing=self._max_publishing,
        )
        try:
            await self._life.start()
        except BaseException:
            self._life = None
            raise

    async def stop(self, grace: Duration | None = None) -> None:
        """Hand over and end; returns when nothing of this scheduler runs any more.

        Only a body that outlived its ``timeout`` may. Handlers are told by their signal and have
        ``grace`` to end by themselves; then coroutines are cancelled. A thread cannot be: its
        lease is kept until it ends.
        """
        life = self._life
        if life is None:
            return
        if life.loop is not asyncio.get_running_loop():
            raise NotRunning(
                "the scheduler runs on another loop: stop it there, or by what"
                " start_in_background() returned"
            )
        if life.is_part(asyncio.current_task()):
            raise NotRunning(
                "a handler or callback would wait for its own end: stop from a task of your own"
            )
        wait = self._grace if grace is None else duration(grace, option="grace", allow_zero=True)
        # a stop that is cancelled may be called again
        await life.stop(wait)
        self._life = None

    async def abandon(self) -> None:
        """Release every lease held here though its handler still runs.

        Only for a process that ends right after: elsewhere two runs would go on side by side.
        """
        if self._life is not None:
            async with self._clock.timeout(PATIENCE):
                await self._life.executor.release_all()

    async def run(self) -> None:
        """Start, run until SIGTERM or SIGINT (or cancelled), and stop."""
        ended = asyncio.Event()
        with caught(lambda _: ended.set()):
            async with self:
                if not self._jobs:
                    log.warning("there are no jobs: nothing is scheduled")
                await ended.wait()

    def start_in_background(self) -> BackgroundScheduler:
        """Start on a thread with a loop of its own; what it returns stops it."""
        return BackgroundScheduler(self).start()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()


def _checked_backend(store: AnyBackend) -> AnyBackend:
    if callable(getattr(store, "connect", None)):
        return store
    raise ConfigurationError(
        f"{store!r} is neither a URL nor a backend",
        option="store",
        fix='write a URL such as "redis://localhost:6379"',
    )


def _checked_namespace(namespace: object) -> str:
    if isinstance(namespace, str) and namespace and namespace.isprintable():
        return namespace
    raise ConfigurationError(
        f"{namespace!r} cannot be a namespace", option="namespace", fix="write a printable text"
    )
