"""The pipeline to a database whose tables are up to date, found so when it is needed.

Connecting takes several round trips (TCP, TLS, the version of the tables); see
``anarchon.backends.connecting``.
"""

from __future__ import annotations

from collections.abc import Sequence

from anarchon.backends.connecting import Connecting
from anarchon.backends.libsql import schema
from anarchon.backends.libsql.faults import StepFailed
from anarchon.backends.libsql.pipeline import Pipeline, Rows, Step
from anarchon.backends.libsql.settings import Settings
from anarchon.clock import SystemClock
from anarchon.errors import OutcomeUnknown, StoreUnavailable

#: How long an attempt may take, in seconds.
_ATTEMPT = 10.0


class Session:
    """Asks one batch at a time."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._pipeline = Pipeline(settings)
        self._is_ready = False
        self._connecting = Connecting(settings.label, self._make)

    async def connect(self) -> None:
        """Have a connection, to a database that is up to date."""
        if not self._is_ready:
            await self._connecting.connect()

    async def look(self, steps: Sequence[Step]) -> list[Rows]:
        """Run a batch that changes nothing."""
        try:
            if self._is_ready:
                return await self._ask(steps)
            with self._connecting.in_a_call():
                await self._connecting.connect_in_a_call()
                return await self._ask(steps)
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
        await self._connecting.end()
        self._is_ready = False
        await self._pipeline.close()

    async def _make(self) -> None:
        try:
            async with SystemClock().timeout(_ATTEMPT):
                await schema.bring_up_to_date(self._pipeline, self._settings.label)
        except TimeoutError as error:
            problem = f"no answer within {_ATTEMPT:.0f} s"
            raise StoreUnavailable(self._settings.label, problem) from error
        self._is_ready = True

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
