"""The leases this process holds: renewed in time, and given up in time.

**Own thread, own connection.** A handler that blocks the event loop, or a long call on the
other connection, must not cost a lease that the store has granted. So the keeper is told of
a token *before* its claim is sent and renews it from then on: if the claim wins while the
loop is blocked, the lease lives all the same; if it loses, the store says no to a renewal of
a token it does not know, and nobody minds.

**Local trust.** ``trusted_until`` is our monotonic time right before a claim or renewal was
sent, plus the lease, less a margin. The store counts from the moment the request arrived,
which is later, so the lease cannot have lapsed there while it is trusted here. When that
time passes without a successful renewal, the attempt's signal is set to ``lease_lost``,
even though the store is silent: what somebody else may hold by now is not ours to work on.
(The formula is that of River's ``leadership`` package.)

**One call a heartbeat.** Everything held is renewed in one batch, as often as the shortest
heartbeat among it asks for. A process that holds nothing sends nothing.

With a manual clock all of this happens on the caller's loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from anarchon.calling import PATIENCE, is_being_cancelled
from anarchon.clock import Bell, Clock
from anarchon.errors import OutcomeUnknown, StoreError, StoreUnavailable
from anarchon.run import Signal
from anarchon.store import LeaseStore, Renewal
from anarchon.threads import Flag, OSThread, native_lock

log = logging.getLogger("anarchon.keeper")

_SMALLEST_MARGIN = timedelta(milliseconds=250)
#: Far more than the claims of a call: a heartbeat is to be one call, and its questions are small.
_BATCH = 2_000


def margin(lease: timedelta) -> timedelta:
    """Return how long before its lease lapses an attempt stops trusting it."""
    return max(lease / 10, _SMALLEST_MARGIN)


@dataclass(eq=False, slots=True)
class Held:
    """One lease that is held here, or asked for.

    ``asked_at`` is when the last request was sent that the store granted; it, ``trusted_until``
    and ``renew_until`` are our monotonic time. ``granted`` is false until the answer to the claim
    was read; ``over`` is true once the handler has ended, when a refused renewal means nothing
    any more.
    """

    job: str
    slot: datetime
    token: str
    lease: timedelta
    heartbeat: timedelta
    signal: Signal = field(default_factory=Signal)
    asked_at: float = float("-inf")
    renew_until: float = float("inf")
    granted: bool = False
    over: bool = False

    @property
    def trusted_until(self) -> float:
        """Until when the lease surely lives, by the length that its run has in the store."""
        return self.asked_at + (self.lease - margin(self.lease)).total_seconds()

    def trust_from(self, asked_at: float) -> None:
        """Trust the lease as granted by a request that was sent then."""
        self.asked_at = max(self.asked_at, asked_at)

    def is_trusted_at(self, monotonic: float) -> bool:
        """Tell whether the lease surely lives at this moment of our monotonic time."""
        return monotonic < self.trusted_until


class Keeper:
    """Renews what it was told of; its methods may be called from any thread."""

    def __init__(self, connect: Callable[[], LeaseStore], clock: Clock) -> None:
        self._connect = connect
        self._clock = clock
        self._lock = native_lock()
        self._held: dict[str, Held] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake = Bell()
        self._wakes_at = float("inf")
        self._thread: OSThread | None = None
        self._task: asyncio.Task[None] | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._ready = Flag()
        self._ended = asyncio.Event()
        self._failure: BaseException | None = None
        self._stopped = False
        self._store: LeaseStore | None = None
        self._opening = 0.0
        self._hung = False
        self._failing = False
        self._renewed_at = float("-inf")
        #: The heartbeat that was too short for an answer last time; it is renewed apart.
        self._too_short = timedelta(0)

    def __repr__(self) -> str:
        return f"<Keeper: {len(self._held)} leases>"

    def start(self) -> None:
        """Start renewing; on a thread of its own unless the clock is manual.

        Raises what keeps the thread from having a loop, such as a lack of file descriptors.
        """
        loop = asyncio.get_running_loop()
        if self._clock.manual:
            self._loop = loop
            self._task = asyncio.create_task(self._run(), name="anarchon-keeper")
            return
        self._thread = OSThread(lambda: self._live_on_thread(loop), "anarchon-keeper")
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            raise self._failure

    async def stop(self) -> None:
        """Stop renewing and let the connection go; what is still held will lapse."""
        self._stopped = True
        self._call(self._wake.set)
        if self._task is not None:
            await self._task
        if self._thread is not None:
            await self._ended.wait()
            self._thread.join()

    def hold(self, held: Held) -> None:
        """Renew a token from now on; to be called before its claim is sent."""
        now = self._clock.monotonic()
        with self._lock:
            if not self._held:
                self._renewed_at = now
            self._held[held.token] = held
        self._hurry(now + held.heartbeat.total_seconds())

    def grant(self, held: Held, lease: timedelta, asked_at: float) -> None:
        """Note that a claim sent at ``asked_at`` has won, with the lease length of its run."""
        with self._lock:
            held.lease = lease
            # the run may have been claimed first by an edition with a shorter lease
            held.heartbeat = min(held.heartbeat, lease / 3)
            held.granted = True
            held.trust_from(asked_at)
        due = min(held.trusted_until, self._clock.monotonic() + held.heartbeat.total_seconds())
        self._hurry(due)
        if self._hung:
            self._hung = False
            self._call(self._open_anew)

    def drop(self, held: Held) -> None:
        """Forget a token."""
        with self._lock:
            self._held.pop(held.token, None)

    def held(self) -> tuple[Held, ...]:
        """Return what is held and granted."""
        with self._lock:
            return tuple(held for held in self._held.values() if held.granted)

    def _hurry(self, due: float) -> None:
        # a burst of claims must not wake the thread once for each of them
        if due < self._wakes_at:
            self._call(self._wake.set)

    def _open_anew(self) -> None:
        """Give up a try to connect that may hang like the one before: the store can be reached."""
        if self._store is None and self._renewing is not None:
            self._renewing.cancel()

    def _call(self, callback: Callable[[], object]) -> None:
        if self._loop is None:
            return
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError:
            pass  # closed: the keeper has ended, and may do so at any moment of a stop

    def _live_on_thread(self, starter: asyncio.AbstractEventLoop) -> None:
        try:
            asyncio.run(self._run_in_thread())
        except BaseException as error:
            self._failure = error
            log.critical("the keeper has died, and leases will lapse", exc_info=error)
        finally:
            self._ready.set()
            if not starter.is_closed():
                starter.call_soon_threadsafe(self._ended.set)

    async def _run_in_thread(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ready.set()
        await self._run()

    async def _run(self) -> None:
        try:
            while not self._stopped:
                now = self._clock.monotonic()
                self._end_distrusted(now)
                if self._renewing is not None and self._renewing.done():
                    self._renewing = None
                # a call that hangs must not keep anybody from noticing that trust is over
                if self._renewing is None and self._renewal_due() <= now:
                    self._renewing = asyncio.create_task(self._renew())
                    self._renewing.add_done_callback(lambda _: self._wake.set())
                self._wake.clear()
                # whoever tells of a token while we look must wake us: the look may have missed it
                self._wakes_at = float("inf")
                self._wakes_at = self._next_wake(self._renewing is not None)
                delay = min(self._wakes_at - self._clock.monotonic(), 60.0)
                await self._clock.wait(self._wake, delay)
        finally:
            self._wakes_at = float("-inf")
            if self._renewing is not None:
                self._renewing.cancel()
                await asyncio.gather(self._renewing, return_exceptions=True)
            if self._store is not None:
                await self._store.close()

    def _end_distrusted(self, now: float) -> None:
        with self._lock:
            over = [h for h in self._held.values() if h.granted and not h.is_trusted_at(now)]
        for held in over:
            if not held.over and held.signal.set("lease_lost"):
                log.warning(
                    "lease not renewed in time, ending the attempt: job=%s slot=%s",
                    held.job,
                    held.slot.isoformat(),
                )

    def _renewal_due(self) -> float:
        with self._lock:
            heartbeats = [h.heartbeat.total_seconds() for h in self._held.values()]
        return self._renewed_at + min(heartbeats) if heartbeats else float("inf")

    def _next_wake(self, renewing: bool) -> float:
        due = float("inf") if renewing else self._renewal_due()
        with self._lock:
            trusted = [
                h.trusted_until
                for h in self._held.values()
                if h.granted and not h.over and not h.signal.is_set()
            ]
        return min(due, *trusted) if trusted else due

    async def _renew(self) -> None:
        now = self._clock.monotonic()
        with self._lock:
            held = [h for h in self._held.values() if h.renew_until > now]
            heartbeat = min((h.heartbeat for h in held), default=timedelta(seconds=1))
        try:
            await self._open(heartbeat)
            # the patient first: what is too urgent for a slow store must not cost them theirs
            for urgent in (False, True):
                some = [h for h in held if (h.heartbeat <= self._too_short) is urgent]
                for start in range(0, len(some), _BATCH):
                    await self._renew_in_time(some[start : start + _BATCH])
            self._renewed_at = now
            if self._failing:
                log.warning("heartbeats are answered again")
            self._failing = False
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and is_being_cancelled():
                raise
            # whatever else it was, the next heartbeat must come
            if not self._failing:
                problem = error if isinstance(error, StoreError) else repr(error)
                log.warning("heartbeat failed, tried again: %s", problem)
            self._failing = True
            # sooner than a heartbeat: there is less trust left now
            self._renewed_at = self._clock.monotonic() - heartbeat.total_seconds() * 2 / 3

    async def _open(self, heartbeat: timedelta) -> None:
        """Connect, in about the shortest heartbeat: a try that hangs must cost no lease.

        A store that cannot be reached so fast gets twice as long the next time.
        """
        if self._store is not None:
            return
        store = self._connect()
        limit = min(max(heartbeat.total_seconds(), self._opening), PATIENCE)
        self._opening = 2 * limit
        try:
            async with self._clock.timeout(limit):
                await store.open()
        except BaseException as error:
            self._hung = isinstance(error, TimeoutError)
            await store.close()
            raise
        self._store = store

    async def _renew_in_time(self, held: list[Held]) -> None:
        shortest = min(h.heartbeat for h in held)
        try:
            await self._renew_some(held, shortest.total_seconds())
        except TimeoutError:
            self._too_short = shortest
            patient = [h for h in held if h.heartbeat > shortest]
            if patient:
                await self._renew_in_time(patient)
            raise
        if shortest <= self._too_short:
            self._too_short = timedelta(0)

    async def _renew_some(self, held: list[Held], deadline: float) -> None:
        try:
            await self._renew_batch(held, deadline)
        except (StoreUnavailable, OutcomeUnknown) as error:
            if len(held) == 1 or not error.partly:
                raise
        except TimeoutError:
            raise
        except Exception as error:
            if len(held) == 1:
                log.warning("heartbeat refused: job=%s: %s", held[0].job, error)
                return
        else:
            return
        # what is not answered for, or poisons the call, must not cost the other leases theirs
        await self._renew_halves(held, deadline)

    async def _renew_halves(self, held: list[Held], deadline: float) -> None:
        middle = len(held) // 2
        unanswered: StoreError | None = None
        for half in (held[:middle], held[middle:]):
            try:
                await self._renew_some(half, deadline)
            except (StoreUnavailable, OutcomeUnknown) as error:
                if not error.partly:
                    raise
                unanswered = error
        if unanswered is not None:
            raise unanswered

    async def _renew_batch(self, held: list[Held], deadline: float) -> None:
        with self._lock:
            # the calls before this one may have taken long
            held = [h for h in held if h.token in self._held]
        if not held:
            return
        # a renewal may reach the store before the claim of its token, and be answered after it
        was_granted = [one.granted for one in held]
        renewals = [Renewal(h.job, h.slot, h.token) for h in held]
        assert self._store is not None, "opened before anything is renewed"
        async with self._clock.timeout(deadline):
            asked_at = self._clock.monotonic()
            reply = await self._store.renew(renewals)
        for one, granted, renewed in zip(held, was_granted, reply.answers, strict=True):
            if renewed:
                with self._lock:
                    one.trust_from(asked_at)
            elif granted and not one.over and one.signal.set("lease_lost"):
                log.warning(
                    "lease refused by the store, ending the attempt: job=%s slot=%s",
                    one.job,
                    one.slot.isoformat(),
                )
