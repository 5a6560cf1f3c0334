"""How a won slot is carried out: a coroutine, a function on a thread, or a message to a broker."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor as Threads
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, cast

from anarchon.action import Handler
from anarchon.clock import growing_pauses
from anarchon.detail import detail_of, storable
from anarchon.durations import describe
from anarchon.errors import StoreError
from anarchon.events import EventKind, shown
from anarchon.job import Job
from anarchon.keeper import Held
from anarchon.run import RunContext, RunState
from anarchon.scheduler.core import SchedulerCore
from anarchon.scheduler.outbox import NOT_BEGUN, Letter, Outbox, Returned

_PAUSES = 0.1, 5.0


@dataclass(frozen=True, slots=True)
class Ending:
    """How an attempt ended; ``INTERRUPTED`` gives the run back instead of ending it.

    ``begun`` is false where no handler was called, and nothing is known to have been published.
    """

    state: RunState
    detail: str | None = None
    error: BaseException | None = None
    repeated: bool = False
    begun: bool = True


@dataclass(frozen=True, slots=True)
class Work:
    """One attempt to carry out; it is no use to start publishing later than ``within``."""

    job: Job
    ctx: RunContext
    held: Held
    within: timedelta


Bodies = set[asyncio.Future[Any]]
WasBegun = Callable[[Job, datetime], Awaitable[bool | None]]

_ENDED = {
    RunState.SUCCESS: EventKind.SUCCESS,
    RunState.PUBLISHED: EventKind.PUBLISHED,
    RunState.FAILED: EventKind.FAILURE,
}


def emit_ending(core: SchedulerCore, job: Job, held: Held, attempt: int, ending: Ending) -> None:
    """Tell how an attempt ended that was not interrupted."""
    core.emit(
        _ENDED[ending.state],
        job.name,
        slot=held.slot,
        attempt=attempt,
        reason="repeated" if ending.repeated else None,
        detail=None if ending.error is not None else ending.detail,
        error=ending.error,
    )


async def run_coroutine(core: SchedulerCore, work: Work, bodies: Bodies) -> Ending:
    """Await a coroutine handler, which is in ``bodies`` as long as it runs."""
    body = asyncio.create_task(
        _outcome_of_coroutine(core, work),
        name=f"anarchon-job-{work.job.name}",
    )
    bodies.add(body)
    body.add_done_callback(bodies.discard)
    if not await _ended_in_time(core, work, body):
        body.cancel()
        # as long as the lease is renewed; a body that takes longer to end has failed all the same
        await _ended_within(core, body, work.held.heartbeat)
        bodies.discard(body)
        return _timed_out(work)
    if body.cancelled():
        return _judge(work, asyncio.CancelledError("the handler was cancelled"))
    return _judge(work, body.result())


async def run_on_thread(
    core: SchedulerCore, work: Work, threads: Threads, leave: Callable[[], None], bodies: Bodies
) -> Ending:
    """Await a plain function on a thread, which nobody can end: only its signal can ask it to.

    ``leave`` is called when the thread is free, which is later than the answer when the
    attempt timed out.
    """
    call = functools.partial(contextvars.copy_context().run, _outcome_of_call, core, work)
    try:
        body = asyncio.get_running_loop().run_in_executor(threads, call)
    except RuntimeError as error:
        # no thread could be started; the call stays in line all the same, and will find it is over
        leave()
        return Ending(RunState.INTERRUPTED, error=error, begun=False)
    body.add_done_callback(lambda _: leave())
    bodies.add(body)
    try:
        if not await _ended_in_time(core, work, body):
            return _timed_out(work)
    finally:
        bodies.discard(body)
    return _judge(work, body.result())


async def publish(core: SchedulerCore, work: Work, outbox: Outbox, was_begun: WasBegun) -> Ending:
    """Hand the run to a broker, again and again until it is sent, late, or somebody else's turn."""
    began = core.clock.monotonic()
    pauses = growing_pauses(*_PAUSES)
    letter = Letter(work.job.action, work.ctx, functools.partial(_may_begin, core, work))
    unsent: str | None = None
    while True:
        outcome = await outbox.send(letter)
        if isinstance(outcome, Returned):
            detail = storable(str(outcome.value))
            return Ending(RunState.PUBLISHED, detail, repeated=unsent is not None)
        if outcome is NOT_BEGUN:
            return Ending(RunState.INTERRUPTED, unsent, begun=False)
        assert isinstance(outcome, BaseException)
        is_first, unsent = unsent is None, storable(f"perhaps not sent: {shown(outcome)}")
        if work.ctx.signal.is_set():
            return Ending(RunState.INTERRUPTED, unsent, outcome, begun=False)
        # of those that failed together one may be to blame
        letter = replace(letter, alone=True)
        if is_first:
            core.emit(
                EventKind.ERROR,
                work.job.name,
                slot=work.ctx.slot,
                attempt=work.ctx.attempt,
                detail="not published; tried again until it is, or too late",
                error=outcome,
            )
        if await _is_late(core, work, was_begun):
            detail = storable(f"not published in time: {shown(outcome)}")
            return Ending(RunState.FAILED, detail)
        if core.clock.monotonic() - began > work.held.lease.total_seconds():
            # an instance with a better way to the broker may try
            return Ending(RunState.INTERRUPTED, unsent, outcome, begun=False)
        try:
            async with core.clock.timeout(next(pauses)):
                await work.ctx.signal.wait()
        except TimeoutError:
            continue


async def _is_late(core: SchedulerCore, work: Work, was_begun: WasBegun) -> bool:
    ctx = work.ctx
    if core.now() - ctx.slot <= work.within:
        return False
    if ctx.tracking is None or ctx.attempt == 1:
        return True
    if core.now() > ctx.tracking.start_by:
        return True
    # the slot was in time if a worker had begun it: what is late is only that it goes on
    try:
        return await was_begun(work.job, ctx.slot) is False
    except StoreError:
        return False


async def _outcome_of_coroutine(core: SchedulerCore, work: Work) -> object:
    if not _may_begin(core, work):
        return NOT_BEGUN
    try:
        return Returned(await cast(Any, cast(Handler, work.job.action)(work.ctx)))
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        # a handler that calls sys.exit() ends itself, not the scheduler and the other runs
        return error


def _outcome_of_call(core: SchedulerCore, work: Work) -> object:
    if not _may_begin(core, work):
        return NOT_BEGUN
    try:
        result = cast(Handler, work.job.action)(work.ctx)
    except BaseException as error:
        return error
    if not inspect.isawaitable(result):
        return Returned(result)
    if inspect.iscoroutine(result):
        result.close()
    return TypeError(
        f"the handler returned {shown(result)}, which nobody awaits: declare it with async def"
    )


def _may_begin(core: SchedulerCore, work: Work) -> bool:
    # it waited for its turn, on the loop or for a thread: what was true before may not be now
    held = work.held
    return not (held.over or held.signal.is_set() or not held.is_trusted_at(core.clock.monotonic()))


async def _ended_in_time(core: SchedulerCore, work: Work, body: asyncio.Future[Any]) -> bool:
    if work.job.timeout is None:
        await asyncio.wait({body})
        return True
    if await _ended_within(core, body, work.job.timeout):
        return True
    work.ctx.signal.set("timeout")
    return False


async def _ended_within(core: SchedulerCore, body: asyncio.Future[Any], length: timedelta) -> bool:
    try:
        async with core.clock.timeout(length.total_seconds()):
            await asyncio.wait({body})
    except TimeoutError:
        return body.done()
    return True


def _timed_out(work: Work) -> Ending:
    assert work.job.timeout is not None
    error = TimeoutError(f"took longer than {describe(work.job.timeout)}")
    return Ending(RunState.FAILED, f"timeout: {error}", error)


def _judge(work: Work, outcome: object) -> Ending:
    if isinstance(outcome, Returned):
        return Ending(RunState.SUCCESS, detail_of(outcome.value))
    if outcome is NOT_BEGUN:
        work.ctx.signal.set("lease_lost")  # unless it was told to stop
        return Ending(RunState.INTERRUPTED, begun=False)
    assert isinstance(outcome, BaseException)
    if work.ctx.signal.reason in ("stop", "lease_lost"):
        return Ending(RunState.INTERRUPTED, error=outcome)
    return Ending(RunState.FAILED, storable(shown(outcome)), outcome)
