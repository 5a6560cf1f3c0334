"""A scheduler without a leader: the same engine on every instance, one shared store to decide.

Every instance computes the same slots from the same schedules. When a slot comes, each waits
a small random moment and asks the store to record that it runs the slot; the store does so
in one atomic step, and exactly one hears ``won``. The winner keeps a lease alive while it
works. The others watch, and one of them takes the run over if the lease lapses::

    from anarchon import Scheduler

    scheduler = Scheduler("redis://localhost:6379")

    @scheduler.every("sync", "10s")
    async def sync(ctx):
        ...

    await scheduler.run()

Read on in this order: ``job`` and ``run`` (what there is), ``store`` (what is asked of a
store), ``rules`` (the whole protocol as pure functions), ``backends.memory`` (the shortest
store), ``asking`` and ``keeper`` (how it is asked, and how leases are kept),
``scheduler.lease_runner``, ``scheduler.backups``, ``scheduler.timers``, and one real backend.
"""

from anarchon.action import Handler, Kind, Publisher
from anarchon.claim_store import ClaimBackend
from anarchon.clock import Clock, SystemClock
from anarchon.errors import (
    AnarchonError,
    ConfigurationError,
    DuplicateJob,
    Interrupted,
    InvalidSchedule,
    LeaseLost,
    MissingExtra,
    NoHistory,
    NotRunning,
    OutcomeUnknown,
    SchemaMismatch,
    StoreError,
    StoreRefused,
    StoreUnavailable,
    UnknownBackend,
)
from anarchon.events import Event, EventKind
from anarchon.job import Duration, Job, JobOptions
from anarchon.run import (
    Attempt,
    OnStoreError,
    Overlap,
    RunContext,
    RunState,
    Signal,
    Tracking,
)
from anarchon.scheduler import BackgroundScheduler, Scheduler, at, cron, every
from anarchon.schedules import At, Cron, CronSets, Every, Polled, Schedule
from anarchon.standing import Standing
from anarchon.store import Backend

__all__ = [
    "AnarchonError",
    "At",
    "Attempt",
    "Backend",
    "BackgroundScheduler",
    "ClaimBackend",
    "Clock",
    "ConfigurationError",
    "Cron",
    "CronSets",
    "DuplicateJob",
    "Duration",
    "Event",
    "EventKind",
    "Every",
    "Handler",
    "Interrupted",
    "InvalidSchedule",
    "Job",
    "JobOptions",
    "Kind",
    "LeaseLost",
    "MissingExtra",
    "NoHistory",
    "NotRunning",
    "OnStoreError",
    "OutcomeUnknown",
    "Overlap",
    "Polled",
    "Publisher",
    "RunContext",
    "RunState",
    "Schedule",
    "Scheduler",
    "SchemaMismatch",
    "Signal",
    "Standing",
    "StoreError",
    "StoreRefused",
    "StoreUnavailable",
    "SystemClock",
    "Tracking",
    "UnknownBackend",
    "at",
    "cron",
    "every",
]
