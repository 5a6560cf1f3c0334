"""The public API as a user types it; read by the type checkers, and never run."""

import functools
from datetime import UTC, datetime, timedelta
from typing import assert_type

from anarchon import (
    AnarchonError,
    At,
    Attempt,
    ConfigurationError,
    Cron,
    Event,
    EventKind,
    Every,
    Interrupted,
    Job,
    LeaseLost,
    OnStoreError,
    Polled,
    RunContext,
    RunState,
    Schedule,
    Scheduler,
    Signal,
    Standing,
    StoreError,
    Tracking,
    at,
    cron,
    every,
)
from anarchon.backends.memory import MemoryBackend
from anarchon.scheduler.background import BackgroundScheduler
from anarchon.testing import Fleet, InstanceClock, ManualClock, Member

scheduler = Scheduler()
scheduler = Scheduler("redis://localhost:6379")
scheduler = Scheduler(
    MemoryBackend(),
    namespace="shop",
    name="web-1",
    grace="30s",
    max_threads=8,
    max_publishing=100,
    lease=timedelta(seconds=10),
    jitter=0.25,
    overlap="allow",
)


@scheduler.every("sync", "10s")
async def sync(ctx: RunContext) -> int:
    return 3


@scheduler.cron("digest", "0 8 * * 1-5", timezone="Europe/Athens", timeout="10m", max_attempts=3)
def digest(ctx: RunContext) -> None:
    assert_type(ctx.job, str)
    assert_type(ctx.slot, datetime)
    assert_type(ctx.attempt, int)
    assert_type(ctx.fence, int)
    assert_type(ctx.deadline, datetime | None)
    assert_type(ctx.idempotency_key, str)
    assert_type(ctx.signal, Signal)
    assert_type(ctx.signal.is_set(), bool)
    assert_type(ctx.signal.reason, str | None)
    assert_type(ctx.signal.wait_in_thread(1.5), bool)
    ctx.signal.raise_if_set()
    ctx.logger.info("%d rows", 3)


def migrate(ctx: RunContext) -> None: ...


async def a_decorated_function_stays_what_it_was(ctx: RunContext) -> None:
    assert_type(await sync(ctx), int)
    assert_type(Reports().migrate(ctx), int)


scheduler.every("a", 10, migrate)
scheduler.every("b", timedelta(minutes=1), lambda ctx: None, offset="5s", catch_up=0)
scheduler.every("c", "1h", functools.partial(migrate), anchor=datetime(2026, 1, 1, tzinfo=UTC))
scheduler.cron("d", "*/5 * * * *", migrate, day="and")

# what is wrong is refused before it runs
scheduler.every("e", "10s", migrate, tiemout="5s")  # type: ignore[call-overload]
scheduler.every("f", "10s", migrate, max_attempts="3")  # type: ignore[call-overload]
scheduler.cron("g", "* * * * *", migrate, day="xor")  # type: ignore[call-overload]
scheduler.at("h", "2027-01-01", migrate)  # type: ignore[call-overload]
Scheduler("memory://", leese="5s")  # type: ignore[call-arg]


class Reports:
    @every("often", "10s", jitter=0)
    @cron("daily", "0 0 * * *", timezone="UTC")
    async def write(self, ctx: RunContext) -> None: ...

    @at("once", datetime(2027, 1, 1, tzinfo=UTC))
    def migrate(self, ctx: RunContext) -> int:
        return 1


scheduler.register(Reports())


class Send:
    task = "proj.send"
    sends_to = "nowhere"

    def publish(self, ctx: RunContext) -> str:
        assert_type(ctx.tracking, Tracking | None)
        return "id"


class Fridays:
    """A schedule of the user's own."""

    def next_after(self, moment: datetime, /) -> datetime | None:
        return None

    def latest_at(self, moment: datetime, /) -> datetime | None:
        return None

    def canonical(self) -> str:
        return "fridays"

    def fingerprint(self, now: datetime, /) -> str:
        return "fridays"


fridays: Schedule = Fridays()
assert_type(scheduler.add("send", Every("1h"), Send(), overlap="allow"), Job)
tracked = scheduler.add(
    "report", Every("1d"), Send(), track=True, start_within="2h", on_store_error="run", timeout=600
)
assert_type(tracked.start_within, timedelta | None)
assert_type(tracked.on_store_error, OnStoreError | None)
scheduler.add("friday", fridays, migrate)


class AtNight(Polled):
    def is_due(self, newest: datetime, now: datetime, /) -> tuple[bool, timedelta | None]:
        return now - newest > timedelta(hours=1), None

    def canonical(self) -> str:
        return "at night"


scheduler.add("asked", AtNight(), migrate, run_at_start=True)
scheduler.add("night", Cron("0 3 * * *", "Europe/Berlin"), migrate)
scheduler.add("new year", At(datetime(2027, 1, 1, tzinfo=UTC)), migrate)


def on_event(event: Event) -> None:
    assert_type(event.kind, EventKind)
    assert_type(event.slot, datetime | None)
    assert_type(event.error, BaseException | None)
    assert_type(event.line(), str)


async def on_failure(event: Event) -> None: ...


scheduler.on("success", on_event)
scheduler.on("failure", on_failure)
scheduler.on(EventKind.SKIP, lambda event: None)


async def live() -> None:
    await scheduler.start()
    assert_type(scheduler.instance, str)
    assert_type(scheduler.is_ready, bool)
    assert_type(scheduler.next_slots("sync", 5), list[datetime])
    history = await scheduler.history("sync", limit=5)
    assert_type(history, tuple[Attempt, ...])
    for attempt in history:
        assert_type(attempt.state, RunState)
        assert_type(attempt.ended, datetime | None)
        assert_type(attempt.detail, str | None)
        assert_type(attempt.begun, datetime | None)
    await scheduler.history(["sync", "digest"])
    await scheduler.history()
    assert_type(await scheduler.examine_store(), Standing)
    await scheduler.stop(grace="5s")
    async with scheduler as running:
        assert_type(running, Scheduler)
    await scheduler.run()


def without_a_loop() -> None:
    background = scheduler.start_in_background()
    assert_type(background, BackgroundScheduler)
    background.stop()
    with scheduler.start_in_background():
        pass


def errors(error: AnarchonError) -> str | None:
    if isinstance(error, ConfigurationError):
        return error.fix
    if isinstance(error, StoreError):
        return error.store
    if isinstance(error, LeaseLost | Interrupted):
        return error.reason
    return None


async def in_a_test() -> None:
    def declare(scheduler: Scheduler, clock: InstanceClock) -> None:
        scheduler.every("sync", "10s", sync)

    async with Fleet(3, declare, clock=ManualClock(), grace=0) as fleet:
        await fleet.clock.advance(timedelta(minutes=1))
        assert_type(fleet[0], Member)
        assert_type(fleet.told(EventKind.START), list[Event])
        assert_type(await fleet.history("sync"), list[Attempt])
        fleet[0].kill()


def slips() -> None:
    """What mypy must refuse: an ignore that is not needed is an error of its own."""

    def no_context() -> None: ...

    scheduler.every("sync", "10s", no_context)  # type: ignore[type-var]
    scheduler.every("sync", "10s", sync, overlap="alow")  # type: ignore[call-overload]
