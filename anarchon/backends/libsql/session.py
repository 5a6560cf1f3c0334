"""The pipeline to a database whose tables are up to date, found so when it is needed.

Connecting takes several round trips (TCP, TLS, the version of the tables), which a call may not
have the time for on a slow network. So the attempt is nobody's but the session's: a call that is
given up leaves it to the next one. And one that has to wait long for it may be told to come again
instead of being sent: what it had left of its time would end the new connection as well, and so
on for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from anarchon.backends.libsql import schema
from anarchon.backends.libsql.faults import StepFailed
from anarchon.backends.libsql.pipeline import Pipeline, Rows, Step
from anarchon.backends.libsql.settings import Settings
from anarchon.clock import SystemClock
from anarchon.errors import OutcomeUnknown, StoreUnavailable

#: How long an attempt may take, in seconds.
_ATTEMPT = 10.0
#: In seconds. Where connecting took no longer, a call takes no more than two thirds of it: the
#: deadline that comes with the shortest lease, a third of a second, is enough for both.
_LONG = 0.2


class Session:
    """Asks one batch at a time."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._clock = SystemClock()
        self._pipeline = Pipeline(settings)
        self._is_ready = False
        self._attempt: asyncio.Task[None] | None = None
        self._took = 0.0
        self._calls_are_short = False

    async def connect(self) -> None:
        """Have a connection, to a database that is up to date."""
        if self._is_ready:
            return
        if self._attempt is None or self._attempt.done():
            loop = asyncio.get_running_loop()
            self._attempt = loop.create_task(self._make(), name="anarchon-connect")
            self._attempt.add_done_callback(_hear)
        attempt = self._attempt
        # it goes on if whoever waits here is cancelled
        await asyncio.wait((attempt,))
        attempt.result()

    async def look(self, steps: Sequence[Step]) -> list[Rows]:
        """Run a batch that changes nothing."""
        try:
            if self._is_ready:
                return await self._ask(steps)
            return await self._connect_and_look(steps)
        except StepFailed as error:
            raise error.as_undone() from error

    async def write(self, steps: Sequence[Step], commit: int) -> list[Rows]:
        """Run a transaction, right after a look; ``commit`` is the number of that step."""
        try:
            return await self._ask(steps, writes=True)
        except StepFailed as error:
            if error.step == commit:
                problem = f"the commit failed: {error.problem}"
                raise OutcomeUnknown(error.store, problem) from error
            raise error.as_undone() from error

    async def close(self) -> None:
        """Let the connection go, and end the attempt at one."""
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            attempt.cancel()
            await asyncio.wait((attempt,))
        self._is_ready = False
        await self._pipeline.close()

    async def _make(self) -> None:
        before = self._clock.monotonic()
        try:
            async with self._clock.timeout(_ATTEMPT):
                await schema.bring_up_to_date(self._pipeline, self._settings.label)
        except TimeoutError as error:
            problem = f"no answer within {_ATTEMPT:.0f} s"
            raise StoreUnavailable(self._settings.label, problem) from error
        self._took = self._clock.monotonic() - before
        self._is_ready = True

    async def _connect_and_look(self, steps: Sequence[Step]) -> list[Rows]:
        before = self._clock.monotonic()
        try:
            await self.connect()
            if self._calls_are_short and self._took > _LONG:
                problem = f"connecting took {self._took:.1f} s, too long for this call"
                raise StoreUnavailable(self._settings.label, problem)
            return await self._ask(steps)
        except asyncio.CancelledError:
            if self._clock.monotonic() - before > _LONG:
                self._calls_are_short = True
            raise

    async def _ask(self, steps: Sequence[Step], *, writes: bool = False) -> list[Rows]:
        try:
            return await self._pipeline.run(steps, writes=writes)
        except StepFailed as error:
            self._is_ready = not error.is_about_tables
            raise
        except BaseException:
            # its connection ended with it
            self._is_ready = False
            raise


def _hear(attempt: asyncio.Task[None]) -> None:
    # of a failure that nobody waited for, asyncio would warn
    if not attempt.cancelled():
        attempt.exception()
